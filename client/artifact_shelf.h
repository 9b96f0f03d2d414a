#ifndef KILN_CLIENT_ARTIFACT_SHELF_H_
#define KILN_CLIENT_ARTIFACT_SHELF_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "runtime/plan.h"

namespace kiln {

// Keeps the artifacts that a process's sessions have used, so that they can be copied
// to another machine, and artifacts that came from one. A session that finds an
// artifact here does not ask a daemon for it. All stay in memory.
//
// Decides: which artifact answers a request, as the daemon does: by the digest
// of the request, then by the guards it relies on.
// Leaves alone: whether an artifact may be trusted. Only what a session has
// verified is put here (load_bundle.h, session.cc).
//
// Thread-safe.
class ArtifactShelf {
 public:
  // An artifact that was verified.
  struct Entry {
    std::shared_ptr<const wire::SignedArtifact> artifact;
    Digest request_digest;  // of the request that it answers
    std::vector<PlanGuard> guards;
  };

  ArtifactShelf() = default;
  ArtifactShelf(const ArtifactShelf&) = delete;
  ArtifactShelf& operator=(const ArtifactShelf&) = delete;

  // Keeps what came in a bundle, to be found.
  void AddFound(std::vector<Entry> entries) ABSL_LOCKS_EXCLUDED(mu_);

  // Keeps what a session used, to be saved. One that is kept already is not
  // kept twice. Unsigned ones are not for this.
  void AddUsed(const wire::SignedArtifact& artifact) ABSL_LOCKS_EXCLUDED(mu_);

  // An artifact from a bundle that answers this request and whose guards hold for
  // these values of its canonical symbols, in order; null if there is none.
  std::shared_ptr<const wire::SignedArtifact> Find(
      const Digest& request_digest, absl::Span<const int64_t> values) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // All that was used, as a bundle. The order is that of their digests, so that
  // equal sets give equal bytes.
  std::string Save() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  std::map<Digest, std::vector<Entry>> found_ ABSL_GUARDED_BY(mu_);
  // By the digest of their bytes.
  std::map<Digest, std::shared_ptr<const wire::SignedArtifact>> used_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CLIENT_ARTIFACT_SHELF_H_

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

// Keeps in memory the artifacts that a process's sessions have used, so that they can be
// copied to another machine, and the artifacts that came from one. A session that finds
// an artifact here does not ask a daemon for it.
//
// Finds artifacts as the daemon does: by the digest of the request, then by the guards.
// It does not check signatures: callers add only artifacts that a session has verified
// (load_bundle.h, session.cc).
//
// Thread-safe.
class ArtifactShelf {
 public:
  // A verified artifact.
  struct Entry {
    std::shared_ptr<const wire::SignedArtifact> artifact;
    Digest request_digest;  // of the request that it answers
    std::vector<PlanGuard> guards;
  };

  ArtifactShelf() = default;
  ArtifactShelf(const ArtifactShelf&) = delete;
  ArtifactShelf& operator=(const ArtifactShelf&) = delete;

  // Adds artifacts from a bundle, which Find may then return.
  void AddFound(std::vector<Entry> entries) ABSL_LOCKS_EXCLUDED(mu_);

  // Adds an artifact that a session used, which Save then writes. Adding it again has no
  // effect. It must be signed.
  void AddUsed(const wire::SignedArtifact& artifact) ABSL_LOCKS_EXCLUDED(mu_);

  // An artifact from a bundle that answers this request and whose guards hold for these
  // values of the canonical symbols, in their order. Null if there is none.
  std::shared_ptr<const wire::SignedArtifact> Find(
      const Digest& request_digest, absl::Span<const int64_t> values) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // A bundle of all used artifacts, sorted by digest, so that equal sets give equal
  // bytes.
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

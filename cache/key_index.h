#ifndef KILN_CACHE_KEY_INDEX_H_
#define KILN_CACHE_KEY_INDEX_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/blob_store.h"
#include "cache/entry_id.h"
#include "cache/key_claims.h"
#include "proto/base/digest.h"
#include "proto/cache_entry.pb.h"

namespace kiln {

// The entries of both, each once, `a`'s in front, in the order they have: `a` was
// stored later, whatever the wall's clock says. At most kMaxEntriesPerKey: the ids of
// those that give way are appended to `dropped`. `a` and `b` are of one key. Pure.
wire::KeyIndex UnionOf(const wire::KeyIndex& a, const wire::KeyIndex& b,
                       std::vector<Digest>& dropped);

// The key's record, read. ARTIFACT_CORRUPT for what is no index of the key, as
// CheckKeyFacts and CheckConditions.
absl::StatusOr<std::shared_ptr<const wire::KeyIndex>> ReadIndexRecord(
    const Digest& key, const std::string& record);

// Which entries each compile key has, as small records apart from the artifacts.
//
// Thread-safe: one writer a key at a time.
class KeyIndexes {
 public:
  // `serve` is what lookups and writes go through; `inspect` has the same records
  // without the memory tier, which a walk over all must not fill. Both outlive
  // this.
  KeyIndexes(BlobStore& serve, BlobStore& inspect)
      : serve_(serve), inspect_(inspect) {}

  // NOT_FOUND; ARTIFACT_CORRUPT for what is no index of the key; otherwise as
  // BlobStore::Get.
  absl::StatusOr<wire::KeyIndex> Read(const Digest& key) const;

  // Merges `added` into what its key has. Gives the ids of entries that gave way.
  // What was there and cannot be read is replaced. ARTIFACT_CORRUPT as CheckKeyFacts,
  // so that nobody adds to another namespace's key; otherwise as BlobStore::Put.
  absl::StatusOr<std::vector<Digest>> Add(const wire::KeyIndex& added);

  // Takes one entry out; a key without entries has no index. OK also when the
  // entry was not there.
  absl::Status Drop(const Digest& key, const Digest& entry_id);

  // Visits those whose key begins with these hexadecimal digits and is greater than
  // `after`, where one is given, in order of the keys. Broken ones are left out.
  // `visit` ends the walk by a non-OK, which is returned; it may change what it
  // visits.
  absl::Status ForEach(
      absl::string_view key_prefix_hex, const std::optional<Digest>& after,
      absl::FunctionRef<absl::Status(const Digest& key, const wire::KeyIndex&)>
          visit) const;

 private:
  BlobStore& serve_;
  BlobStore& inspect_;
  KeyClaims claims_;  // of keys being read, changed and written
};

}  // namespace kiln

#endif  // KILN_CACHE_KEY_INDEX_H_

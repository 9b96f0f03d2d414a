#ifndef KILN_CACHE_SOUND_ENTRY_H_
#define KILN_CACHE_SOUND_ENTRY_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"
#include "proto/cache_entry.pb.h"

namespace kiln {

// What a record says of its own key, namespace and id is believed once it was here:
// all three follow from what else stands in it. A signature does not show that; it
// says who wrote the record, and a key that counts in one namespace may have signed
// what claims to be an entry of another's key. Whoever takes an entry or an index out
// of a store, from near, from afar or from a peer, takes it through here. All pure.

// ARTIFACT_CORRUPT unless `facts` are those of the key: their parts make it, and the
// namespace is that of its part.
absl::Status CheckKeyFacts(const wire::KeyFacts& facts, const Digest& key);

// ARTIFACT_CORRUPT for more conditions than a plan may have (work_limits.h).
absl::Status CheckConditions(const wire::EntryFacts& facts, const Digest& name);

// The entry in a record's payload. ARTIFACT_CORRUPT unless it is one of that id, sound
// as CheckKeyFacts and CheckConditions have it, and the id is that of its key, guards
// and tuning.
absl::StatusOr<wire::CacheEntry> ReadEntryRecord(const Digest& id,
                                                 absl::string_view payload);
// The same, of that key.
absl::StatusOr<wire::CacheEntry> ReadEntryRecord(const Digest& key,
                                                 const Digest& id,
                                                 absl::string_view payload);

}  // namespace kiln

#endif  // KILN_CACHE_SOUND_ENTRY_H_

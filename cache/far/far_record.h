#ifndef KILN_CACHE_FAR_FAR_RECORD_H_
#define KILN_CACHE_FAR_FAR_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/far/far_store.h"
#include "proto/base/digest.h"
#include "proto/base/trusted_keys.h"
#include "proto/cache_entry.pb.h"

namespace kiln {

// What comes back from a far store, read as if an enemy had written it. Pure.
//
// A record is what the near store has (cache/entry_format.h): whole and signed. A
// hint is there to choose a record by, and nothing else is made of it; it is not
// signed:
//
//   xxh3    u64   XXH3-64 of what follows, little-endian
//   facts         a serialized EntryFacts
//
// Guards and tuning of a hint are those of its entry, since the id is a digest of
// them and the key. Whoever forges the rest causes a miss.

// A hint has at most this many bytes.
inline constexpr size_t kMaxHintBytes = size_t{256} << 10;

std::string HintOf(const wire::EntryFacts& facts);

// ARTIFACT_CORRUPT: a wrong sum, no facts, or those of another key or entry.
absl::StatusOr<wire::EntryFacts> ReadHint(const Digest& key,
                                          const FarHint& hint);

// An entry that may be served and stored near.
//
//   ARTIFACT_CORRUPT, ARTIFACT_UNTRUSTED  as OpenRecord and ReadEntryRecord; also
//                         one whose artifact's envelope is of another key, entry or
//                         namespace, or names a signer that does not count there;
//                         the record's signer must, too
//   ARTIFACT_INCOMPATIBLE  as OpenRecord
absl::StatusOr<wire::CacheEntry> OpenFarEntry(const Digest& key,
                                              const Digest& id,
                                              absl::string_view record,
                                              const TrustedKeys& trusted);

// A unit's record that may be served and stored near: units are shared by all
// namespaces, so its signer must count in every one.
//
//   ARTIFACT_CORRUPT, ARTIFACT_UNTRUSTED, ARTIFACT_INCOMPATIBLE  as OpenRecord
absl::Status CheckFarUnit(const Digest& key, absl::string_view record,
                          const TrustedKeys& trusted);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_RECORD_H_

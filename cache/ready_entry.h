#ifndef KILN_CACHE_READY_ENTRY_H_
#define KILN_CACHE_READY_ENTRY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/blob_store.h"
#include "proto/base/digest.h"

namespace kiln {
namespace wire {
class CacheEntry;
}  // namespace wire

// What a hit needs to know of an entry's record, so that it reads it once.
struct ReadyEntry {
  std::string signer;  // of the artifact's envelope; empty: unsigned
  // Where the record has its serialized SignedArtifact, in bytes.
  size_t artifact_begin = 0;
  size_t artifact_bytes = 0;
};

// Of a CacheEntry. ARTIFACT_CORRUPT for what is none of that key and id, as
// ReadEntryRecord, and where there is not one artifact with its envelope.
absl::StatusOr<std::shared_ptr<const ReadyEntry>> ReadReadyEntry(
    const std::string& record, const Digest& key, const Digest& id);
// The same, of a record that ReadEntryRecord took: `entry` is what it gave.
absl::StatusOr<std::shared_ptr<const ReadyEntry>> ReadyOf(
    const std::string& record, const wire::CacheEntry& entry);

// A hit in memory: a piece of its record.
struct ReadyHit {
  Blob record;                 // keeps `artifact` alive
  absl::string_view artifact;  // a serialized SignedArtifact
};

}  // namespace kiln

#endif  // KILN_CACHE_READY_ENTRY_H_

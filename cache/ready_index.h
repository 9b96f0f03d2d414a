#ifndef KILN_CACHE_READY_INDEX_H_
#define KILN_CACHE_READY_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/guard_match.h"
#include "proto/base/digest.h"
#include "proto/cache_entry.pb.h"

namespace kiln {

// The index of a key as lookups walk it: read once, and shared by them.
struct ReadyIndex {
  struct Row {
    explicit Row(const wire::EntryFacts& facts);

    Digest id;
    uint32_t least_driver_cuda_version = 0;
    GuardPrograms guards;
    std::vector<std::string> tuned;
  };

  std::string cache_namespace;
  std::vector<Row> entries;
  int64_t steps = 0;  // what it costs at most to try all entries
};

// A step is an instruction of a guard; a choice of tuning, which is searched for,
// takes as long as some.
inline constexpr int64_t kStepsOfChoice = 4;

// Larger records and indexes are neither read nor tried by a thread that has no
// time: what is below takes it some microseconds, and a millisecond to read.
inline constexpr size_t kMostIndexBytesAtOnce = size_t{64} << 10;
inline constexpr int64_t kMostIndexStepsAtOnce = 4096;

// ARTIFACT_CORRUPT as ReadIndexRecord.
absl::StatusOr<std::shared_ptr<const ReadyIndex>> ReadReadyIndex(
    const Digest& key, const std::string& record);

}  // namespace kiln

#endif  // KILN_CACHE_READY_INDEX_H_

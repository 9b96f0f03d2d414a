#ifndef KILN_COMPILER_SCHEDULE_NEST_PRICE_H_
#define KILN_COMPILER_SCHEDULE_NEST_PRICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/candidate_limits.h"

namespace kiln {

// What a kernel costs in addition to its work: a launch that waits for the kernel before
// it. Measured on the H200 with programmatic dependent launches.
inline constexpr double kLaunchNs = 2000;

// A choice is made by price only if it saves this much: an eighth of a launch. Smaller
// differences are within the error of the prices.
inline constexpr double kLeastSavedNs = kLaunchNs / 8;

// If fusion keeps fewer bytes of temporaries in memory for longer, that does not matter:
// allocators keep more in their pools.
inline constexpr int64_t kLeastHeldBytes = int64_t{64} << 20;

// A kernel of no more points than this takes about as long as its launch.
inline constexpr int64_t kLaunchBoundPoints = 1 << 16;

// `buffer` as plans have it: one dimension with stride 1, as long as the memory that its
// strides reach.
Buffer FlatBuffer(Buffer buffer);

// Prices nests of one program. The price of a nest is that of a kernel of its own, with
// its axes in their final order and the cheapest variant. Not thread-safe.
class NestPricer {
 public:
  // `program` must outlive this. Its buffers may not change, except that buffers may be
  // added and removed at the end: DropBuffer reports that one was removed.
  NestPricer(const LoopProgram& program, const Target& target,
             const CandidateLimits& limits);

  // The last buffer was removed.
  void DropBuffer() {
    if (flat_.size() > program_.buffers.size()) flat_.pop_back();
  }

  // Nanoseconds, including the launch; infinite if the nest cannot become a kernel. Nests
  // that differ only in their buffers, as in the layers of a model, are priced once.
  double PriceOf(const LoopNest& nest);

  // The price of the nest that `join` makes of the two and of nothing else. Pairs that
  // differ only in their buffers are joined once, so `join` must do the same in all calls.
  double PriceOfPair(const LoopNest& a, const LoopNest& b,
                     absl::FunctionRef<LoopNest()> join);

 private:
  double PriceOfNew(LoopNest nest);
  // Makes the nest's buffers flat.
  void Flatten(const LoopNest& nest);

  const LoopProgram& program_;
  const Target& target_;
  const CandidateLimits limits_;
  // The program's buffers: flat if a nest that was priced accesses them, otherwise empty.
  std::vector<Buffer> flat_;
  absl::flat_hash_map<std::string, double> known_;  // by fingerprint
  absl::flat_hash_map<std::string, double> pairs_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_NEST_PRICE_H_

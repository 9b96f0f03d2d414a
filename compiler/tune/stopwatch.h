#ifndef KILN_COMPILER_TUNE_STOPWATCH_H_
#define KILN_COMPILER_TUNE_STOPWATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"

namespace kiln {

// A built kernel with all that it takes to launch it on fresh memory.
struct TimedKernel {
  TargetKind kind = TargetKind::kCpu;
  std::string target;  // what the image is for: "sm_90"
  std::string image;   // of its unit
  std::string symbol;
  std::vector<int64_t> buffer_bytes;  // its buffers, in signature order
  std::vector<int64_t> scalars;
  // Signature order: i for buffer_bytes[i], ~i for scalars[i].
  std::vector<int32_t> order;
  int64_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
};

// Variants whose medians differ by less count as equal.
inline constexpr double kTuningTie = 1.02;

// Times kernels on a device. The tuner declares what it needs; only the
// worker's main knows what gives it (the runtime).
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;

  // The median of `repeats` runs, in seconds, after runs that warm up. The
  // memory is zero.
  //
  // NO_DEVICE when this machine has none that the image is for.
  virtual absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                               int repeats) = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_STOPWATCH_H_

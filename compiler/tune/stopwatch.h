#ifndef KILN_COMPILER_TUNE_STOPWATCH_H_
#define KILN_COMPILER_TUNE_STOPWATCH_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "proto/base/dtype.h"

namespace kiln {

// A built kernel with everything that is needed to launch it on new memory.
struct TimedKernel {
  TargetKind kind = TargetKind::kCpu;
  std::string target;  // the image's target: "sm_90"
  std::string image;   // object code of the kernel's unit
  std::string symbol;
  std::vector<int64_t> buffer_bytes;  // in signature order
  std::vector<int64_t> scalars;
  // The parameters in signature order: i for buffer_bytes[i], ~i for scalars[i].
  std::vector<int32_t> order;
  int64_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
};

// A library call with all its sizes known, to be run on new memory.
struct TimedCall {
  struct Operand {
    DType dtype = DType::kFloat32;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;  // in elements
  };
  struct Attribute {
    std::string name;
    std::variant<int64_t, double, std::string, std::vector<int64_t>> value;
  };
  TargetKind kind = TargetKind::kCpu;
  std::string target;  // "sm_90"
  std::string name;    // "addmm", as in LibraryCall
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<Attribute> attributes;
};

// Choices whose medians differ by less than this factor count as equally fast.
inline constexpr double kTuningTie = 1.02;

// Times kernels and library calls on a device. The tuner only knows this interface; the
// worker's main implements it with the runtime's devices.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;

  // Runs the kernel on zeroed memory, first a few times to warm up. Returns the median
  // of `repeats` runs, in seconds.
  //
  // NO_DEVICE if this machine has no device that can run the image.
  virtual absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                               int repeats) = 0;

  // The same for a library call. Its inputs are small numbers.
  //
  // NO_DEVICE also if the library is missing; UNIMPLEMENTED if this stopwatch only
  // times kernels.
  virtual absl::StatusOr<double> MedianSeconds(const TimedCall& call,
                                               int /*repeats*/) {
    return TimesOnlyKernels(call);
  }

  // The values of the attribute "algorithm" that the device's library accepts for the
  // call, at most `most` of them, beginning with the library's own choice. Errors: as
  // above.
  virtual absl::StatusOr<std::vector<std::string>> Algorithms(
      const TimedCall& call, int /*most*/) {
    return TimesOnlyKernels(call);
  }

 private:
  static absl::Status TimesOnlyKernels(const TimedCall& call) {
    return absl::UnimplementedError(
        absl::StrCat(call.name, ": this stopwatch times only kernels"));
  }
};

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_STOPWATCH_H_

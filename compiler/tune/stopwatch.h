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

// A library call with all its numbers known, to be made on fresh memory.
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

  // The same of a library call, over small numbers.
  //
  // NO_DEVICE also without the library; UNIMPLEMENTED of one that times kernels
  // alone.
  virtual absl::StatusOr<double> MedianSeconds(const TimedCall& call,
                                               int /*repeats*/) {
    return TimesKernelsAlone(call);
  }

  // What the device's library may take for the call's attribute "algorithm", its
  // own first choice first, `most` at most. Errors: as above.
  virtual absl::StatusOr<std::vector<std::string>> Algorithms(
      const TimedCall& call, int /*most*/) {
    return TimesKernelsAlone(call);
  }

 private:
  static absl::Status TimesKernelsAlone(const TimedCall& call) {
    return absl::UnimplementedError(
        absl::StrCat(call.name, ": this stopwatch times kernels alone"));
  }
};

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_STOPWATCH_H_

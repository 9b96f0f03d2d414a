#ifndef KILN_TESTS_SUPPORT_NEST_CASE_H_
#define KILN_TESTS_SUPPORT_NEST_CASE_H_

// A nest written by hand, with its buffers, and the check that the kernel
// written for it does what the interpreter does.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/toolchain/toolchain.h"
#include "proto/kernel_abi.h"

namespace kiln {

// What the tests write most often.
inline SymExpr A(uint32_t axis) { return SymExpr::Axis(axis); }
inline constexpr DType kF32 = DType::kFloat32;
inline constexpr DType kBF16 = DType::kBFloat16;

struct MappedNest;

class NestCase {
 public:
  // Axes, the reduced ones last.
  uint32_t Axis(SymExpr extent, bool reduction = false);
  // A symbol with its value in this case; bounds [0, 1 << 20].
  SymExpr Symbol(int64_t value);

  // Dense when no strides are given.
  BufferId Buffer(BufferKind kind, DType dtype, DimVector sizes,
                  DimVector strides = {});
  BufferId In(DType dtype, DimVector sizes, DimVector strides = {}) {
    return Buffer(BufferKind::kInput, dtype, sizes, strides);
  }
  BufferId Out(DType dtype, DimVector sizes, DimVector strides = {}) {
    return Buffer(BufferKind::kOutput, dtype, sizes, strides);
  }

  ScalarId Load(BufferId buffer, DimVector index);
  ScalarId MaskedLoad(BufferId buffer, DimVector index, ScalarId mask,
                      double other);
  ScalarId Constant(DType dtype, double value);
  ScalarId Index(SymExpr index);
  ScalarId Op(ScalarOp op, std::vector<ScalarId> args);
  ScalarId Cast(DType dtype, ScalarId value);
  ScalarId Random(int64_t number, ScalarId index);
  ScalarId Reduce(ReduceOp reduce, ScalarId value);
  ScalarId Second(ScalarId reduce);  // the index of kArgMax
  ScalarId Scan(ReduceOp reduce, ScalarId value);
  // kSort: the first `places`, or 0 for all.
  ScalarId Sort(ReduceOp order, ScalarId value, int64_t places);
  ScalarId Tally(ScalarId value, int64_t values);
  void Store(BufferId buffer, DimVector index, ScalarId value,
             StoreMode mode = StoreMode::kSet,
             ScalarId mask = kiln::Store::kNoMask);
  // A sum over stretches of outer points, at `column` of `buffer` [stretches,
  // columns].
  void Sum(BufferId buffer, SymExpr column, ScalarId value, int64_t stretch);

  // `kernel` becomes a part of a combined kernel, and an empty one its follower:
  // the checks are then of all parts together, `kernel` left out.
  void EndPart();

  PlannedKernel kernel;
  std::vector<PlannedKernel> parts;
  std::vector<kiln::Buffer> buffers;
  ShapeEnv shapes;
  // Integers are drawn from [0, integer_limit), floats from about [-4, 4].
  int64_t integer_limit = 5;
  // One float in eight is a NaN, an infinity or a zero, of either sign.
  bool special_floats = false;

  // The kernel for each CPU level this machine has, run by one thread and in
  // pieces from the last to the first: equal bytes, and equal to the
  // interpreter within `tolerance`, relative to 1 and to the value.
  void CheckOnCpu(double tolerance);

  // The kernel for sm_90, built with NVRTC and run, by the emulator where there is
  // no GPU. Says SKIPPED where NVRTC is missing.
  void CheckOnCuda(double tolerance);

  // One of the two for each of Variants, which `kernel.variant` becomes in turn; on
  // CUDA also for those of the nest's one-pass form, if it has one.
  void CheckVariants(TargetKind kind, double tolerance);
  // The variants that the schedule may give `kernel`, thinned out so that each
  // combination of features stands for all; and of reductions those that it takes
  // only for large sizes.
  std::vector<KernelVariant> Variants(const Target& target) const;

  // The case with addresses for indices, as the schedule has nests.
  NestCase Flat() const;
  // All variants that `kernel` may have and that fit.
  std::vector<KernelVariant> Candidates(const Target& target) const;
  // The case with `kernel` in that variant and with the workspace it needs.
  NestCase With(const KernelVariant& variant) const;

  // Run kernels that were built elsewhere, `source` being what Source gave, and
  // compare. `where` stands in front of what is wrong.
  void RunOnCpu(KilnCpuKernel entry, const KernelSource& source,
                const std::string& where, double tolerance) const;
  // `image`: what BuildToRun gave for a unit that holds the kernel.
  void RunOnCuda(const std::string& image, const KernelSource& source,
                 const std::string& where, double tolerance) const;

  // Used by the checks.
  struct Trial {
    std::vector<int64_t> counts;  // elements of each buffer
    std::vector<std::vector<char>> expected;
    bool inside = true;  // every index that the nest checks
  };
  absl::StatusOr<KernelSource> Source(const Target& target) const;
  Trial Interpret() const;
  std::vector<std::vector<char>> FilledMemory(
      const std::vector<int64_t>& counts) const;
  void Compare(const Trial& trial, const std::vector<std::vector<char>>& found,
               const std::string& where, double tolerance) const;
  int64_t Value(const SymExpr& e) const;
  static constexpr uint64_t kSeed = 0x123456789abcdef0;

 private:
  ScalarNode& Add(ScalarOp op, DType dtype);
  ScalarId Last() const;
  int64_t Elements(const kiln::Buffer& buffer) const;
  // In each of Variants, with what all of them are compared with.
  std::vector<MappedNest> Mapped(const Target& target, double tolerance);
  std::vector<int64_t> symbol_values_;
  std::shared_ptr<const Trial> trial_;  // what Interpret gave; null: not yet
};

// Whether kernels of sm_90 run on a GPU; else tests/support/cuda_emulator runs them.
bool GpuIsThere();

// What RunOnCuda takes for a unit of which NVRTC made `cubin`: the same, or what the
// emulator makes of `unit`, its source. Thread-safe.
absl::StatusOr<BuiltObject> BuildToRun(const BuiltObject& cubin,
                                       const std::string& unit);

// Launches the kernel on what BuildToRun gave for its unit. `memory`: of the
// buffers, by their numbers, as the kernel finds and leaves it. `value`: of a size.
void LaunchOnCuda(const std::string& image, const KernelSource& source,
                  absl::FunctionRef<int64_t(const SymExpr&)> value,
                  std::vector<std::vector<char>>& memory,
                  const std::string& where);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_NEST_CASE_H_

#ifndef KILN_RUNTIME_EXTERN_SITE_H_
#define KILN_RUNTIME_EXTERN_SITE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/base/mutex.h"
#include "runtime/constant_operands.h"
#include "runtime/device.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/plan.h"

namespace kiln {

// One extern call of a plan. Where its shapes are constants the library call is
// prepared at load. Else it is prepared when a shape first comes, and the last
// few shapes are kept: a step with a known shape prepares nothing.
//
// Where the library wants a constant operand in a form of its own, that is made
// together with the call, and no run makes it again (constant_operands.h).
//
// Thread-safe.
class ExternSite {
 public:
  // Shapes kept. Batches of a training run come in a handful of lengths.
  static constexpr size_t kKeptShapes = 16;

  // See ReadExternCall, ExternLibrary::Prepare and ConstantOperands::CopyFor for
  // errors. `plan`, `library` and `constants` outlive the site.
  static absl::StatusOr<std::unique_ptr<ExternSite>> Bind(
      const PlanExtern& call, const Plan& plan, ExternLibrary& library,
      ConstantOperands& constants);

  // The call, ready for the shapes of one run.
  struct Shape {
    absl::InlinedVector<int64_t, 8> numbers;  // of what varies
    int operand[kMaxExternOperands];
    std::shared_ptr<const PreparedCall> call;
    std::string problem;  // Describe
    // What the call is given as ExternBuffers::prepared. Null: nothing.
    std::shared_ptr<const ConstantOperands::Copy> prepared;
  };

  // `values`: of the plan's expressions. Errors: see Bind.
  absl::StatusOr<std::shared_ptr<const Shape>> ShapeFor(
      absl::Span<const int64_t> values) const ABSL_LOCKS_EXCLUDED(mu_);

  // `bases`: of the plan's buffers; `workspace`: the call's workspace_bytes.
  absl::Status Run(const Shape& shape, absl::Span<const int64_t> values,
                   absl::Span<char* const> bases, void* workspace,
                   Stream stream) const;

  const std::string& name() const { return call_.name; }

  // For people: what is computed, with what behind it, and who computes it, a line
  // for each shape that is kept. None where no shape came yet.
  //
  //   addmm, relu: matmul f32 1 x [8, 16] @ [16, 32]: oneDNN
  //   convolution: convolution f32 ...: oneDNN, 36864 bytes of a constant prepared
  std::vector<std::string> Descriptions() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  ExternSite(const PlanExtern& call, const Plan& plan, ExternLibrary& library,
             ConstantOperands& constants);

  absl::StatusOr<std::shared_ptr<const Shape>> Prepare(
      absl::Span<const int64_t> values) const;

  const PlanExtern& call_;
  ExternLibrary& library_;
  ConstantOperands& constants_;
  std::vector<const PlanView*> views_;  // inputs, then outputs
  std::vector<ExprId> varying_;  // non-constant numbers of shapes, attributes
  std::shared_ptr<const Shape> fixed_;  // when nothing varies
  mutable Mutex mu_;
  mutable std::vector<std::shared_ptr<const Shape>> kept_ ABSL_GUARDED_BY(mu_);
  mutable size_t replace_next_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_SITE_H_

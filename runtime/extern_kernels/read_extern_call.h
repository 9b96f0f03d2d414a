#ifndef KILN_RUNTIME_EXTERN_KERNELS_READ_EXTERN_CALL_H_
#define KILN_RUNTIME_EXTERN_KERNELS_READ_EXTERN_CALL_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/dtype.h"
#include "runtime/extern_kernels/extern_kernel.h"

// Turns an extern call of a plan, its numbers known, into the problem that a
// library computes. All that is said of the calls in extern_kernel.h is checked
// here, so that libraries need not.

namespace kiln {

struct ExternOperand {
  DType dtype = DType::kFloat32;
  absl::Span<const int64_t> sizes;
  absl::Span<const int64_t> strides;
};

struct ExternAttribute {
  absl::string_view name;
  std::variant<int64_t, double, absl::string_view, absl::Span<const int64_t>>
      value;
};

struct ExternCall {
  absl::string_view name;
  absl::Span<const ExternOperand> inputs;
  absl::Span<const ExternOperand> outputs;
  absl::Span<const ExternAttribute> attributes;
};

// A problem, and which operand of the call each of its buffers is: a number of
// `inputs` followed by `outputs`, or -1 for none.
struct ExternPart {
  ExternProblem problem;
  int operand[kMaxExternOperands];
  ExternPart() { std::fill(std::begin(operand), std::end(operand), -1); }
};

// See the errors in extern_kernel.h. Pure.
absl::StatusOr<ExternPart> ReadExternCall(const ExternCall& call);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_READ_EXTERN_CALL_H_

// What a program asserts of its data.

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;

// Of one element, and nothing comes of it.
absl::StatusOr<TensorMetas> InferAssertion(const InferInput& in) {
  const TensorMeta& self = in.tensor(0);
  if (!self.numel().Is(1)) {
    return Malformed(
        absl::StrCat("asserted ", ToText(self), ", expected one element"));
  }
  return TensorMetas{};
}

constexpr OpRow kRows[] = {
    {"aten._assert_async.default", "(Tensor self) -> ()", InferAssertion,
     kLower},
    {"aten._assert_async.msg", "(Tensor self, str assert_msg) -> ()",
     InferAssertion, kLower},
};

}  // namespace

absl::Span<const OpRow> AssertionOps() { return kRows; }

}  // namespace kiln

// What a program asserts of its data.

#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

RefResults Assert(RefCall& call) {
  if (!call.Load("self").B(0)) call.Fail("an assertion that does not hold");
  return {};
}

constexpr ReferenceRow kRows[] = {
    {"aten._assert_async.default", Assert},
    {"aten._assert_async.msg", Assert},
};

}  // namespace

absl::Span<const ReferenceRow> AssertionReferences() { return kRows; }

}  // namespace kiln

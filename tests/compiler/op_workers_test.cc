// Holds the tables over the operators together: a row that promises work has
// somebody who does it. Operators that are known and not worked on yet are
// listed; whoever builds one takes it off the list.

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

// Refused by name when a graph is lowered or taken apart.
constexpr absl::string_view kNoWorker[] = {
    "aten.zero.default",  // a graph pass makes it a full
    "aten.linspace.default",
    "aten.tril_indices.default",
    "aten.triu_indices.default",
    "aten.diagonal_backward.default",
    "aten.diagonal_scatter.default",
    "aten.upsample_nearest2d_backward.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "aten._scaled_dot_product_cudnn_attention_backward.default",
};

constexpr absl::string_view kNoReference[] = {
    "aten.diagonal_backward.default",
    "aten.diagonal_scatter.default",
    "aten.upsample_nearest2d_backward.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "aten._scaled_dot_product_cudnn_attention_backward.default",
};

template <size_t N>
bool IsIn(const absl::string_view (&names)[N], absl::string_view name) {
  return std::find(names, names + N, name) != names + N;
}

bool HasWorker(const OpDef& op) {
  switch (op.handling) {
    case Handling::kView:
    case Handling::kLower:
    case Handling::kExtern:
    case Handling::kDecompose:
      // A formula may also stand in for a loop of its own.
      return FindDecomposition(op) != nullptr ||
             (op.handling != Handling::kDecompose && HasLowering(op));
    case Handling::kMutate:
      return op.functional != nullptr;  // functionalize's
  }
  return false;
}

TEST(OpWorkers, AnOperatorIsLoweredOrTakenApartUnlessItIsListed) {
  for (const OpDef& op : AllOps()) {
    EXPECT_TRUE(HasWorker(op) || IsIn(kNoWorker, op.name)) << op.name;
  }
}

TEST(OpWorkers, AnOperatorHasAReferenceUnlessItIsListed) {
  for (const OpDef& op : AllOps()) {
    if (op.handling == Handling::kMutate) continue;
    EXPECT_TRUE(FindReference(op) != nullptr || IsIn(kNoReference, op.name))
        << op.name;
  }
}

}  // namespace
}  // namespace kiln

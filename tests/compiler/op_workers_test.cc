// Holds the tables over the operators together: a row that promises work has
// somebody who does it, and has a reference to compare with.

#include <gtest/gtest.h>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

bool HasWorker(const OpDef& op) {
  switch (op.handling) {
    case Handling::kView:
    case Handling::kLower:
    case Handling::kStep:
    case Handling::kDecompose:
      // A formula may also stand in for a loop of its own.
      return FindDecomposition(op) != nullptr ||
             (op.handling != Handling::kDecompose && HasLowering(op));
    case Handling::kMutate:
      return op.functional != nullptr;  // functionalize's
  }
  return false;
}

TEST(OpWorkers, EveryOperatorIsLoweredOrTakenApart) {
  for (const OpDef& op : AllOps()) {
    EXPECT_TRUE(HasWorker(op)) << op.name;
  }
}

TEST(OpWorkers, EveryOperatorHasAReference) {
  for (const OpDef& op : AllOps()) {
    if (op.handling == Handling::kMutate) continue;
    EXPECT_TRUE(FindReference(op) != nullptr) << op.name;
  }
}

}  // namespace
}  // namespace kiln

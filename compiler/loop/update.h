#ifndef KILN_COMPILER_LOOP_UPDATE_H_
#define KILN_COMPILER_LOOP_UPDATE_H_

// One update of an element at a place that is loaded, and a nest over many.

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/loop/lowering.h"

namespace kiln {

// What one point of a nest does to the result.
struct Update {
  DimVector index;  // in the result
  ScalarId value;   // in the result's ComputeType
  ScalarId mask = Store::kNoMask;
  // The point's number in row-major order: of two that set one element, the
  // greater one wins where the order is fixed.
  SymExpr number = 0;
};
// Iterates over the updates, loads what one needs, and says what it does. Called
// once for each nest that goes over the updates.
using WriteUpdate = absl::FunctionRef<absl::StatusOr<Update>(NestWriter&)>;

// The number of the point `at` of a space of these sizes, in row-major order.
SymExpr NumberOf(const DimVector& at, const DimVector& sizes);

// A temporary of the result's sizes, filled with `start`.
BufferId FilledCells(NodeLowering& n, DType dtype, Number start);

// One nest over the updates: into `cells`, of the result's sizes, goes what
// `value` makes of each. Errors are those of `write`.
absl::Status ApplyUpdates(
    NodeLowering& n, WriteUpdate write, BufferId cells, StoreMode mode,
    absl::FunctionRef<ScalarId(NestWriter&, const Update&)> value);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_UPDATE_H_

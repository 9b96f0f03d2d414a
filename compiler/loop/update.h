#ifndef KILN_COMPILER_LOOP_UPDATE_H_
#define KILN_COMPILER_LOOP_UPDATE_H_

// Updates of a result's elements at loaded positions, and nests that do them.

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/loop/lowering.h"

namespace kiln {

// The update that one point of a nest does.
struct Update {
  DimVector index;  // in the result
  ScalarId value;   // in the result's ComputeType
  ScalarId mask = Store::kNoMask;
  // The point's number in row-major order. If two points set one element and the order
  // is fixed, the greater number wins.
  SymExpr number = 0;
};
// Adds the axes of the updates to a nest, loads what an update needs, and returns the
// update. Called once for each nest over the updates.
using WriteUpdate = absl::FunctionRef<absl::StatusOr<Update>(NestWriter&)>;

// The number of the point `at` of a space of these sizes, in row-major order.
SymExpr NumberOf(const DimVector& at, const DimVector& sizes);

// A temporary of the result's sizes, filled with `start`.
BufferId FilledCells(NodeLowering& n, DType dtype, Number start);

// Writes one nest over the updates. It stores what `value` computes from each update in
// `cells`, which has the result's sizes. Errors are those of `write`.
absl::Status ApplyUpdates(
    NodeLowering& n, WriteUpdate write, BufferId cells, StoreMode mode,
    absl::FunctionRef<ScalarId(NestWriter&, const Update&)> value);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_UPDATE_H_

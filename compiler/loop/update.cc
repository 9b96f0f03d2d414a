#include "compiler/loop/update.h"

#include "proto/base/status.h"

namespace kiln {

SymExpr NumberOf(const DimVector& at, const DimVector& sizes) {
  SymExpr number = 0;
  for (size_t d = 0; d < at.size(); ++d) number = number * sizes[d] + at[d];
  return number;
}

BufferId FilledCells(NodeLowering& n, DType dtype, Number start) {
  const DimVector& sizes = n.result_meta().sizes;
  const BufferId cells = n.g.AddBuffer(BufferKind::kTemporary, dtype, sizes,
                                       ContiguousStrides(sizes));
  n.g.program.steps.push_back(Fill{cells, start});
  return cells;
}

absl::Status ApplyUpdates(
    NodeLowering& n, WriteUpdate write, BufferId cells, StoreMode mode,
    absl::FunctionRef<ScalarId(NestWriter&, const Update&)> value) {
  NestWriter nest = n.Write();
  ASSIGN_OR_RETURN(const Update update, write(nest));
  nest.StoreTo(cells, update.index, value(nest, update), mode, update.mask);
  nest.Finish();
  return absl::OkStatus();
}

}  // namespace kiln

#ifndef KILN_COMPILER_SCHEDULE_ROW_COUNTS_H_
#define KILN_COMPILER_SCHEDULE_ROW_COUNTS_H_

// Nests that count: sums of i32 into a few neighbouring cells, which differ from
// row to row at most. A block can add in shared memory first.

#include <optional>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

struct RowCounts {
  BufferId buffer = 0;
  SymExpr first = 0;  // address of a row's first cell
  int64_t cells = 0;  // of a row
  // One a store: the cell, a constant and a loaded or computed number.
  std::vector<SymExpr> cell;
};

// None for other nests. Every store adds, its address moves with the last axis
// through one node alone, and that node is an `and` with a constant, so that it
// is known how many cells there are. `nest` has no reduced axes.
std::optional<RowCounts> RowCountsOf(const LoopNest& nest,
                                     const NestFacts& facts);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ROW_COUNTS_H_

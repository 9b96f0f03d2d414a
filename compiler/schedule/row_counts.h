#ifndef KILN_COMPILER_SCHEDULE_ROW_COUNTS_H_
#define KILN_COMPILER_SCHEDULE_ROW_COUNTS_H_

// Recognizes nests that count, like histograms: each row adds i32 values into a few
// neighbouring cells. Rows may have their own cells or share them. A block can add in
// shared memory first, and then add its sums to the cells once.

#include <optional>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

struct RowCounts {
  BufferId buffer = 0;
  SymExpr first = 0;  // address of a row's first cell, in elements
  int64_t cells = 0;  // per row
  // For each store the number of the cell in its row: a constant plus a loaded or
  // computed number.
  std::vector<SymExpr> cell;
};

// None for other nests. Every store must add. Its address may depend on the last axis
// only through one node: a bitwise `and` with a constant, which bounds the number of
// cells. `nest` must have no reduced axes. Pure.
std::optional<RowCounts> RowCountsOf(const LoopNest& nest,
                                     const NestFacts& facts);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ROW_COUNTS_H_

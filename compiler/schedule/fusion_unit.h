#ifndef KILN_COMPILER_SCHEDULE_FUSION_UNIT_H_
#define KILN_COMPILER_SCHEDULE_FUSION_UNIT_H_

// A nest with the facts that fusion needs about it, computed once.

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

struct NestAccess {
  BufferId buffer = 0;
  bool store = false;
  bool plain = true;  // unmasked, and if it is a store, kSet
  // The offset in elements from the buffer's first, as a function of the nest's axes.
  // None if that is not linear.
  std::optional<LinearForm> address;
  DimVector index;
  // The size of the buffer with symbols at their hints; at least that of one element.
  int64_t bytes = 0;
};

struct FusionUnit {
  LoopNest nest;
  int nests = 1;  // how many were merged into it, itself included
  std::vector<NestAccess> accesses;
  int64_t bytes = 0;           // sum of the accesses' bytes
  int64_t outer_points = 1;    // with symbols at their hints
  int64_t reduced_points = 1;  // the same; 1 without reduction axes
  bool reduces = false;
  bool scans = false;
  bool atomic = false;
};

FusionUnit MakeFusionUnit(LoopNest nest, int nests,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSION_UNIT_H_

#ifndef KILN_COMPILER_SCHEDULE_FUSION_UNIT_H_
#define KILN_COMPILER_SCHEDULE_FUSION_UNIT_H_

// A nest with what fusion asks of it again and again.

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

struct NestAccess {
  BufferId buffer = 0;
  bool store = false;
  bool plain = true;  // unmasked; a store also kSet
  // Elements from the buffer's first, over the nest's axes; none where it is
  // not linear.
  std::optional<LinearForm> address;
  DimVector index;
  int64_t bytes = 0;  // of the buffer, at the hints; an element's at least
};

struct FusionUnit {
  LoopNest nest;
  int nests = 1;  // that went into it
  std::vector<NestAccess> accesses;
  int64_t bytes = 0;           // of its buffers, one for each access
  int64_t outer_points = 1;    // at the hints
  int64_t reduced_points = 1;  // 1 without reduction axes
  bool reduces = false;
  bool scans = false;
  bool atomic = false;
};

FusionUnit MakeFusionUnit(LoopNest nest, int nests,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSION_UNIT_H_

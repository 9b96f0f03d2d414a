#ifndef KILN_CLIENT_CORPUS_RUNNER_PLAN_FIGURES_H_
#define KILN_CLIENT_CORPUS_RUNNER_PLAN_FIGURES_H_

#include <cstdint>
#include <vector>

#include "proto/artifact.pb.h"

namespace kiln {

// Counts of what a plan does at run time; none is a time. Expressions over symbols are
// evaluated at the symbols' hints.
struct PlanFigures {
  int64_t kernels = 0;  // launches of generated kernels
  int64_t copies = 0;
  int64_t fills = 0;
  int64_t externs = 0;      // library calls
  int64_t bytes_moved = 0;  // read and written by generated kernels
  int64_t arena_bytes = 0;
  // The compiler's figures, with each symbol at the class of its hint: the arena, and the
  // size that a perfect packing would need.
  int64_t planned_arena_bytes = 0;
  int64_t peak_live_bytes = 0;
  int64_t object_bytes = 0;
};

// `symbols` has a value for each symbol of the plan, in order; `classes` has the value
// that the compiler assumed for it. An expression that cannot be evaluated counts as 0.
PlanFigures FiguresOf(const wire::Artifact& artifact,
                      const std::vector<int64_t>& symbols,
                      const std::vector<int64_t>& classes);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_PLAN_FIGURES_H_

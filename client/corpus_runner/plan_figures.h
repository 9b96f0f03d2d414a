#ifndef KILN_CLIENT_CORPUS_RUNNER_PLAN_FIGURES_H_
#define KILN_CLIENT_CORPUS_RUNNER_PLAN_FIGURES_H_

#include <cstdint>
#include <vector>

#include "proto/artifact.pb.h"

namespace kiln {

// What a plan does at run time, in numbers that do not depend on a clock.
// Expressions over symbols are evaluated at each symbol's `hints`.
struct PlanFigures {
  int64_t kernels = 0;  // launches of generated kernels
  int64_t copies = 0;
  int64_t fills = 0;
  int64_t externs = 0;      // library calls
  int64_t bytes_moved = 0;  // read and written by generated kernels
  int64_t arena_bytes = 0;
  // As the compiler saw it, at the class of each hint: the arena, and what a
  // perfect packing would need.
  int64_t planned_arena_bytes = 0;
  int64_t peak_live_bytes = 0;
  int64_t object_bytes = 0;
};

// `symbols` has a value for each symbol of the plan, in its order, and
// `classes` what the compiler took for it. An expression that cannot be
// evaluated counts as 0.
PlanFigures FiguresOf(const wire::Artifact& artifact,
                      const std::vector<int64_t>& symbols,
                      const std::vector<int64_t>& classes);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_PLAN_FIGURES_H_

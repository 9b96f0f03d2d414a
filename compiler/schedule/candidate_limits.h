#ifndef KILN_COMPILER_SCHEDULE_CANDIDATE_LIMITS_H_
#define KILN_COMPILER_SCHEDULE_CANDIDATE_LIMITS_H_

#include <cstdint>

#include "compiler/config/compile_options.h"

namespace kiln {

// What the options of a compile allow the kernels of nests to do.
struct CandidateLimits {
  // How many elements of a row may be kept in registers between passes; 0: as many as
  // fit.
  int64_t max_row = 0;
  // Whether blocks may share an outer point of a reduction and combine their partial
  // results through memory (CudaRows.parts, CudaColumns.parts, column_sums.h). Scans and
  // tallies are shared in any case.
  bool split = true;
};

inline CandidateLimits LimitsOf(const ArtifactOptions& options) {
  return {.max_row = options.persistent_max_row,
          .split = options.split_reductions};
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CANDIDATE_LIMITS_H_

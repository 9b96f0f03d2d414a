#ifndef KILN_COMPILER_SCHEDULE_COLUMN_CANDIDATES_H_
#define KILN_COMPILER_SCHEDULE_COLUMN_CANDIDATES_H_

// The part of variant_candidates.h that lists CudaColumns.

#include <vector>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Appends those of a nest with a reduction and without a scan to `out`. `split` is that
// of CandidateLimits.
void AddColumns(const NestCosts& costs, bool split,
                std::vector<KernelVariant>& out);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COLUMN_CANDIDATES_H_

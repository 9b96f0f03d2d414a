#ifndef KILN_COMPILER_SCHEDULE_SCAN_CANDIDATES_H_
#define KILN_COMPILER_SCHEDULE_SCAN_CANDIDATES_H_

// The part of variant_candidates.h that lists CUDA's scans, sorts, tallies and
// counts. Each appends to `out` what the nest may have.

#include <vector>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

void AddScans(const NestCosts& costs, std::vector<KernelVariant>& out);
// For a nest whose only reduction is a kSort.
void AddSorts(const NestCosts& costs, std::vector<KernelVariant>& out);
// For a nest whose only reduction is a kTally.
void AddTallies(const NestCosts& costs, std::vector<KernelVariant>& out);
void AddCounts(const NestCosts& costs, std::vector<KernelVariant>& out);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SCAN_CANDIDATES_H_

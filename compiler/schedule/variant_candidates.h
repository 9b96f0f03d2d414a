#ifndef KILN_COMPILER_SCHEDULE_VARIANT_CANDIDATES_H_
#define KILN_COMPILER_SCHEDULE_VARIANT_CANDIDATES_H_

#include <vector>

#include "compiler/schedule/candidate_limits.h"
#include "compiler/schedule/cost_model.h"

namespace kiln {

// The variants to price for the nest of `costs` on its target, in a fixed order.
// `blocks` and `alone`, which ConfigSpace sets, have their defaults. At least one; some
// may not fit (Price.fits).
//
// Pure; a function of sizes (hints where they hold symbols), dtypes and strides.
std::vector<KernelVariant> CandidatesFor(const NestCosts& costs,
                                         const CandidateLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_VARIANT_CANDIDATES_H_

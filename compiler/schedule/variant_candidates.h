#ifndef KILN_COMPILER_SCHEDULE_VARIANT_CANDIDATES_H_
#define KILN_COMPILER_SCHEDULE_VARIANT_CANDIDATES_H_

#include <vector>

#include "compiler/schedule/cost_model.h"

namespace kiln {

// The variants that a kernel of `costs`' nest may have on its target, in a fixed
// order, without the parts that no choice hangs on. At least one. Some may not
// fit (Price.fits).
//
//   max_row  elements of a row that may be kept in registers between passes;
//            0: as many as fit
//
// Pure; a function of sizes (hints where they hold symbols), dtypes and strides.
std::vector<KernelVariant> CandidatesFor(const NestCosts& costs,
                                         int64_t max_row);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_VARIANT_CANDIDATES_H_

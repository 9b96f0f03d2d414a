#ifndef KILN_COMPILER_SCHEDULE_FINISH_VARIANT_H_
#define KILN_COMPILER_SCHEDULE_FINISH_VARIANT_H_

#include <vector>

#include "compiler/schedule/cost_model.h"

namespace kiln {

// Sets those numbers of a nest's candidates that the others and the nest suggest, whatever
// a candidate costs: `whole`, `floats`, `once`, `branch` and `joined`. Other values would
// be kernels too; these are the ones that measured best. Pure.
void FinishVariants(const NestCosts& costs,
                    std::vector<KernelVariant>& variants);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FINISH_VARIANT_H_

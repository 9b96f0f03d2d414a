#ifndef KILN_COMPILER_SCHEDULE_FINISH_VARIANT_H_
#define KILN_COMPILER_SCHEDULE_FINISH_VARIANT_H_

#include "compiler/schedule/cost_model.h"

namespace kiln {

// Sets those numbers of a candidate that the others and the nest suggest, whatever the
// candidate costs: `whole`, `floats`, `once`, `branch` and `joined`. Other values would
// be kernels too; these are the ones that measured best. Pure.
void FinishVariant(const NestCosts& costs, KernelVariant& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FINISH_VARIANT_H_

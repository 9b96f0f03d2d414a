#ifndef KILN_COMPILER_SCHEDULE_CHOOSE_VARIANT_H_
#define KILN_COMPILER_SCHEDULE_CHOOSE_VARIANT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

struct VariantChoice {
  KernelVariant variant;
  Price price;
  // The nest in another form (one_pass_form.h), when that is what was priced.
  std::optional<LoopNest> form;
  // All candidates with their prices, the chosen one among them; filled when
  // asked for.
  struct Priced {
    KernelVariant variant;
    Price price;
    bool one_pass = false;
    bool chosen = false;
  };
  std::vector<Priced> candidates;
};

// How the iteration space of `nest`, whose addresses are flat and whose axes
// are merged and in their final order, is shared out: the cheapest of
// variant_candidates.h by cost_model.h, the first of equals.
//
// Decides: everything that kernel_variant.h names.
// Leaves alone: axes and their order (loop_order.h).
//
//   max_row  as CandidatesFor
//   explain  whether to keep all candidates
//
// Errors: of FactsOf.
//
// Pure; a function of sizes (hints where they hold symbols), dtypes, strides and
// the target.
absl::StatusOr<VariantChoice> ChooseVariant(const LoopNest& nest,
                                            const std::vector<Buffer>& buffers,
                                            const ShapeEnv& shapes,
                                            const Target& target,
                                            int64_t max_row, bool explain);

// Adds the buffers that the kernels' variants need beside those of their nests,
// and notes them in each kernel's workspace. Counters are shared by all kernels
// of the plan: each leaves them at zero.
void AddWorkspaces(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CHOOSE_VARIANT_H_

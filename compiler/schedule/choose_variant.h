#ifndef KILN_COMPILER_SCHEDULE_CHOOSE_VARIANT_H_
#define KILN_COMPILER_SCHEDULE_CHOOSE_VARIANT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "compiler/schedule/config_space.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

struct VariantChoice {
  KernelConfig config;
  // The key under which the kernel's tuning decisions are stored, and the decision in
  // force; empty if there is none. Set when `tuning` is given.
  std::string key;
  std::string decision;
  // Why the decision was ignored; empty if it was taken or there is none.
  std::string ignored;
  // All configurations with their prices, the chosen one among them; filled when
  // asked for.
  struct Priced {
    KernelConfig config;
    bool chosen = false;
  };
  std::vector<Priced> configs;
};

struct ChoiceOptions {
  int64_t max_row = 0;  // as CandidatesFor
  // Decisions in force. Null: the price alone decides, as it must for fusion, which may
  // not depend on measurements.
  const TuningTable* tuning = nullptr;
  bool explain = false;  // whether to keep all configurations
};

// How the iteration space of `nest`, whose addresses are flat and whose axes
// are merged and in their final order, is shared out. Of its configurations
// (config_space.h) that which a tuning decision names; without one the cheapest
// by cost_model.h, the first of equals. A decision that names none of them, or
// one that does not fit, is ignored.
//
// Decides: everything that kernel_variant.h names.
// Leaves alone: axes and their order (loop_order.h).
//
// Errors: of FactsOf.
//
// Pure; a function of sizes (hints where they hold symbols), dtypes, strides, the
// target and the decision.
absl::StatusOr<VariantChoice> ChooseVariant(const LoopNest& nest,
                                            const std::vector<Buffer>& buffers,
                                            const ShapeEnv& shapes,
                                            const Target& target,
                                            const ChoiceOptions& options);

// Adds the buffers that the kernels' variants need beside those of their nests,
// and notes them in each kernel's workspace. Counters are shared by all kernels
// of the plan: each leaves them at zero.
void AddWorkspaces(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CHOOSE_VARIANT_H_

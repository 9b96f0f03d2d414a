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
  // All configurations with their prices, including the chosen one. Filled if
  // ChoiceOptions::explain is set.
  struct Priced {
    KernelConfig config;
    bool chosen = false;
  };
  std::vector<Priced> configs;
};

struct ChoiceOptions {
  CandidateLimits limits;
  // Decisions in force. If null, only the price decides. Fusion needs that, because it may
  // depend neither on measurements nor on the length of code.
  const TuningTable* tuning = nullptr;
  bool explain = false;  // whether to keep all configurations
};

// Chooses how `nest` is mapped to threads and blocks. Its addresses are flat, and its
// axes are merged and in their final order. Takes the configuration (config_space.h)
// that a tuning decision names; without a decision the preferred one, which is the
// cheapest by cost_model.h or nearly so. A decision is ignored if it names no
// configuration of the nest, or one that does not fit.
//
// Decides everything in kernel_variant.h, but not the axes and their order
// (loop_order.h).
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

// Adds the buffers that the kernels' variants need in addition to those of their nests,
// and sets each kernel's workspace. All kernels of the plan share their counters, since
// each leaves them at zero.
void AddWorkspaces(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CHOOSE_VARIANT_H_

#include "compiler/schedule/plan_pipeline.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/fold_one_hot_sums.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/narrow_integers.h"
#include "compiler/loop/split_reductions.h"
#include "compiler/loop/unroll_reductions.h"
#include "compiler/schedule/align_contractions.h"
#include "compiler/schedule/candidate_limits.h"
#include "compiler/schedule/choose_algorithm.h"
#include "compiler/schedule/choose_contraction.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/schedule/combine_nests.h"
#include "compiler/schedule/flash_configs.h"
#include "compiler/schedule/flatten_program.h"
#include "compiler/schedule/fuse_epilogues.h"
#include "compiler/schedule/fuse_loops.h"
#include "compiler/schedule/inline_producers.h"
#include "compiler/schedule/jam_windows.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "compiler/schedule/kernel_labels.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/last_reads.h"
#include "compiler/schedule/loop_order.h"
#include "compiler/schedule/nest_price.h"
#include "compiler/schedule/one_pass_form.h"
#include "compiler/schedule/pad_in_place.h"
#include "compiler/schedule/plan_buffers.h"
#include "compiler/schedule/sink_kernels.h"
#include "proto/base/status.h"
#include "proto/base/tuned_line.h"

namespace kiln {

namespace {

// --- Passes over loops.

absl::StatusOr<Changed> RunDropDeadStores(LoopProgram& program,
                                          const PassEnv&) {
  DropDeadStores(program);
  return Changed::kYes;
}

absl::StatusOr<Changed> RunUnrollReductions(LoopProgram& program,
                                            const PassEnv& env) {
  const int threshold = env.options.artifact.unroll_reductions_threshold;
  return UnrollReductions(program, threshold) > 0 ? Changed::kYes
                                                  : Changed::kNo;
}

InlineOptions InlineOptionsOf(const PassEnv& env) {
  return {.limits = {.loops = env.options.artifact.max_fusion_size},
          .kernels = LimitsOf(env.options.artifact)};
}

absl::StatusOr<Changed> RunInlineProducers(LoopProgram& program,
                                           const PassEnv& env) {
  if (env.options.artifact.no_fusion) return Changed::kNo;
  InlineProducers(program, env.target, InlineOptionsOf(env));
  return Changed::kYes;
}

absl::StatusOr<Changed> RunFoldOneHotSums(LoopProgram& program,
                                          const PassEnv& env) {
  if (env.options.artifact.no_fusion) return Changed::kNo;
  return Changed::Patterns(FoldOneHotSums(program));
}

absl::StatusOr<Changed> RunMakeRoomForPads(LoopProgram& program,
                                           const PassEnv& env) {
  const ArtifactOptions& options = env.options.artifact;
  if (!options.inplace_padding || !options.comprehensive_padding)
    return Changed::kNo;
  return Changed::Patterns(MakeRoomForPads(program));
}

absl::StatusOr<Changed> RunPadInPlace(LoopProgram& program,
                                      const PassEnv& env) {
  const ArtifactOptions& options = env.options.artifact;
  if (!options.inplace_padding) return Changed::kNo;
  return Changed::Patterns(
      PadInPlace(program, options.can_inplace_pad_graph_input));
}

// Its pattern count is the number of buffers whose rows got a longer stride.
absl::StatusOr<Changed> RunAlignContractions(LoopProgram& program,
                                             const PassEnv& env) {
  const AlignedCounts counts = AlignContractions(
      program, env.target, AlignOptionsOf(env.options.artifact), env.tuning);
  if (counts.products == 0) return Changed::kNo;
  return counts.rows > 0 ? Changed::Patterns(counts.rows) : Changed::kYes;
}

absl::StatusOr<Changed> RunChooseContractions(LoopProgram& program,
                                              const PassEnv& env) {
  return Changed::Patterns(ChooseContractions(
      program, env.target, env.options.artifact, env.tuning));
}

absl::StatusOr<Changed> RunFuseEpilogues(LoopProgram& program,
                                         const PassEnv& env) {
  const ArtifactOptions& options = env.options.artifact;
  if (options.no_fusion || options.emulate_precision_casts) return Changed::kNo;
  return Changed::Patterns(FuseEpilogues(program, env.target));
}

FusionOptions FusionOptionsOf(const PassEnv& env) {
  return {.limits = {.nests = env.options.artifact.max_fusion_size},
          .kernels = LimitsOf(env.options.artifact)};
}

absl::StatusOr<Changed> RunFuseLoops(LoopProgram& program, const PassEnv& env) {
  if (env.options.artifact.no_fusion) return Changed::kNo;
  FuseLoops(program, env.target, FusionOptionsOf(env));
  return Changed::kYes;
}

// A CUDA kernel shares its reductions among blocks itself (CudaRows.parts).
absl::StatusOr<Changed> RunSplitReductions(LoopProgram& program,
                                           const PassEnv& env) {
  if (env.target.kind != TargetKind::kCpu ||
      !env.options.artifact.split_reductions) {
    return Changed::kNo;
  }
  return SplitReductions(program) > 0 ? Changed::kYes : Changed::kNo;
}

absl::StatusOr<Changed> RunNarrowIntegers(LoopProgram& program,
                                          const PassEnv&) {
  return NarrowIntegers(program) > 0 ? Changed::kYes : Changed::kNo;
}

constexpr Pass<LoopProgram> kLoopPasses[] = {
    {"drop_dead_stores", RunDropDeadStores},
    // First, because other passes change the nests by which padding is recognized.
    {"make_room_for_pads", RunMakeRoomForPads},
    {"pad_in_place", RunPadInPlace},
    // Before contractions are chosen: a peeled part may become loops of ours.
    {"align_contractions", RunAlignContractions},
    // Before fusion: loops of ours are fused like any others.
    {"choose_contractions", RunChooseContractions},
    // Before inlining, which may take the nest that could be an epilogue.
    {"fuse_epilogues", RunFuseEpilogues},
    // Before inlining, which takes only nests without reductions.
    {"unroll_reductions", RunUnrollReductions},
    // Before fusion: an inlined producer is no longer a nest to be fused.
    {"inline_producers", RunInlineProducers},
    // After inlining, which completes the terms of sums. Leaves pointwise nests that are
    // inlined next.
    {"fold_one_hot_sums", RunFoldOneHotSums},
    {"inline_producers", RunInlineProducers},
    // Again, because an activation of several operators has become one nest.
    {"fuse_epilogues", RunFuseEpilogues},
    {"fuse_loops", RunFuseLoops},
    // After fusion, because stores that were fused with a reduction are split with it.
    {"split_reductions", RunSplitReductions},
    // Last, because other passes expect 64-bit indices.
    {"narrow_integers", RunNarrowIntegers},
};

// --- Passes over kernels.

absl::StatusOr<Changed> RunOrderLoops(KernelPlan& plan, const PassEnv&) {
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    // The order comes first: only neighbouring axes can be merged.
    kernel->nest =
        MergeAxes(OrderAxes(std::move(kernel->nest), plan.buffers, plan.shapes),
                  plan.shapes);
  }
  return Changed::kYes;
}

// A kernel chosen for few reduced points may be hundreds of times slower than needed for
// many, and one chosen for many several times slower than needed for few. So guards limit
// an artifact to sizes within a factor of kFurthest of the hints. Up to kAlwaysNear
// points any size is close enough.
constexpr int64_t kFurthest = 8;
constexpr int64_t kAlwaysNear = 512;

absl::StatusOr<Changed> RunGuardExtents(KernelPlan& plan, const PassEnv& env) {
  if (env.target.kind != TargetKind::kCuda) return Changed::kNo;
  const size_t before = plan.shapes.guards().size();
  for (const PlannedStep& step : plan.steps) {
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    for (const Axis& axis : kernel->nest.axes) {
      if (!axis.reduction || axis.extent.is_constant()) continue;
      const int64_t hint = plan.shapes.Hint(axis.extent);
      constexpr absl::string_view kOrigin =
          "kernels chosen for sizes like the hints";
      plan.shapes.DecideLe(axis.extent, std::max(kAlwaysNear, kFurthest * hint),
                           kOrigin);
      if (hint / kFurthest > kAlwaysNear)
        plan.shapes.DecideLe(hint / kFurthest, axis.extent, kOrigin);
    }
  }
  return plan.shapes.guards().size() > before ? Changed::kYes : Changed::kNo;
}

absl::StatusOr<Changed> RunJamWindows(KernelPlan& plan, const PassEnv& env) {
  int64_t jammed = 0;
  for (PlannedStep& step : plan.steps) {
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel != nullptr &&
        JamWindows(kernel->nest, plan.buffers, plan.shapes, env.target,
                   LimitsOf(env.options.artifact)))
      ++jammed;
  }
  return Changed::Patterns(jammed);
}

absl::StatusOr<VariantChoice> Choose(const PlannedKernel& kernel,
                                     const KernelPlan& plan, const PassEnv& env,
                                     bool explain) {
  return ChooseVariant(kernel.nest, plan.buffers, plan.shapes, env.target,
                       {.limits = LimitsOf(env.options.artifact),
                        .tuning = &env.tuning,
                        .explain = explain});
}

absl::StatusOr<Changed> RunChooseVariants(KernelPlan& plan,
                                          const PassEnv& env) {
  // The layers of a model have equal kernels.
  absl::flat_hash_map<std::string, VariantChoice> known;
  for (PlannedStep& step : plan.steps) {
    if (auto* flash = std::get_if<FlashKernel>(&step)) {
      const FlashChoice choice =
          DecideFlash(*flash, plan.shapes, env.target, env.tuning);
      flash->variant = choice.variant;
      if (!choice.key.empty()) plan.tuned[choice.key] = choice.decision;
    }
    auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    const auto [at, added] =
        known.emplace(KernelFingerprint(kernel->nest, plan.buffers,
                                        FingerprintSizes::kSizesOnly)
                          .bytes(),
                      VariantChoice());
    if (added) {
      ASSIGN_OR_RETURN(at->second, Choose(*kernel, plan, env, false));
      const VariantChoice& choice = at->second;
      if (!choice.key.empty()) plan.tuned[choice.key] = choice.decision;
    }
    kernel->variant = at->second.config.variant;
    // Not shared with the equal kernel, which has other buffers.
    if (at->second.config.one_pass)
      kernel->nest = OnePassForm(kernel->nest).value();
  }
  LabelKernels(plan);
  return Changed::kYes;
}

absl::StatusOr<Changed> RunChooseAlgorithms(KernelPlan& plan,
                                            const PassEnv& env) {
  return Changed::Patterns(ChooseAlgorithms(
      plan, env.target, env.tuning, env.options.artifact.deterministic));
}

// Marks decisions so that later measurements do not replace them: with `deterministic`
// a caller must get the same results again.
absl::StatusOr<Changed> RunPinDecisions(KernelPlan& plan, const PassEnv& env) {
  if (!env.options.artifact.deterministic) return Changed::kNo;
  for (auto& [key, decision] : plan.tuned)
    decision = absl::StrCat(kPinnedDecision, decision);
  return plan.tuned.empty() ? Changed::kNo : Changed::kYes;
}

absl::StatusOr<Changed> RunCombineKernels(KernelPlan& plan,
                                          const PassEnv& env) {
  const ArtifactOptions& options = env.options.artifact;
  const CombineLimits limits = {.loops = options.max_fusion_size};
  if (options.no_fusion || CombineNests(plan, env.target, limits) == 0) {
    return Changed::kNo;
  }
  LabelKernels(plan);
  return Changed::kYes;
}

absl::StatusOr<Changed> RunSinkKernels(KernelPlan& plan, const PassEnv&) {
  if (SinkKernels(plan) == 0) return Changed::kNo;
  LabelKernels(plan);
  return Changed::kYes;
}

absl::StatusOr<Changed> RunMarkLastReads(KernelPlan& plan, const PassEnv& env) {
  if (env.target.kind != TargetKind::kCuda) return Changed::kNo;
  return Changed::Patterns(MarkLastReads(plan));
}

absl::StatusOr<Changed> RunAddWorkspaces(KernelPlan& plan, const PassEnv&) {
  AddWorkspaces(plan);
  return Changed::kYes;
}

absl::StatusOr<Changed> RunPlanBuffers(KernelPlan& plan, const PassEnv& env) {
  PlanBuffers(plan, MostInArena(env.target));
  return Changed::kYes;
}

constexpr Pass<KernelPlan> kKernelPasses[] = {
    {"order_loops", RunOrderLoops},
    // After the order is known, and before a variant is chosen for the jammed nest.
    {"jam_windows", RunJamWindows},
    // Before variants are chosen, which may rely on the guards.
    {"guard_extents", RunGuardExtents},
    {"choose_variants", RunChooseVariants},
    {"choose_algorithms", RunChooseAlgorithms},
    // After all tuning keys have been looked up.
    {"pin_decisions", RunPinDecisions},
    // After variants are chosen: only kernels mapped as points share a launch.
    {"combine_kernels", RunCombineKernels},
    // After kernels that share a launch have found each other.
    {"sink_kernels", RunSinkKernels},
    {"mark_last_reads", RunMarkLastReads},
    // Before buffers are placed, because partial results need memory too.
    {"add_workspaces", RunAddWorkspaces},
    {"plan_buffers", RunPlanBuffers},
};
constexpr size_t kPassesBeforeVariants = 3;

}  // namespace

const IrInspection<LoopProgram> kLoopInspection = {
    [](const LoopProgram& program) { return ToText(program); }, VerifyLoops,
    [](const LoopProgram& program) {
      return static_cast<int64_t>(program.steps.size());
    }};
const IrInspection<KernelPlan> kPlanInspection = {
    [](const KernelPlan& plan) { return ToText(plan); },
    [](const KernelPlan&) { return absl::OkStatus(); },
    [](const KernelPlan& plan) {
      return static_cast<int64_t>(plan.steps.size());
    }};

absl::Span<const Pass<LoopProgram>> LoopPipeline() { return kLoopPasses; }
absl::Span<const Pass<KernelPlan>> KernelPipeline() { return kKernelPasses; }

absl::StatusOr<KernelPlan> PlanNests(LoopProgram program, const PassEnv& env,
                                     std::vector<PassRecord>& records) {
  RETURN_IF_ERROR(
      RunPasses(LoopPipeline(), program, env, kLoopInspection, records));
  std::vector<std::string> contractions = ExplainContractions(
      program, env.target, env.options.artifact, env.tuning);
  std::vector<std::string> tiny_products = std::move(program.tiny_products);
  KernelPlan plan = FlattenAddresses(std::move(program));
  plan.contractions = std::move(contractions);
  plan.tiny_products = std::move(tiny_products);
  RETURN_IF_ERROR(RunPasses(KernelPipeline().first(kPassesBeforeVariants), plan,
                            env, kPlanInspection, records));
  return plan;
}

absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program, const PassEnv& env,
                                       std::vector<PassRecord>& records) {
  ASSIGN_OR_RETURN(KernelPlan plan,
                   PlanNests(std::move(program), env, records));
  RETURN_IF_ERROR(RunPasses(KernelPipeline().subspan(kPassesBeforeVariants),
                            plan, env, kPlanInspection, records));
  return plan;
}

absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program,
                                       const PassEnv& env) {
  std::vector<PassRecord> records;
  return PlanKernels(std::move(program), env, records);
}

absl::StatusOr<ConfigSpace> ConfigsOf(const PlannedKernel& kernel,
                                      const KernelPlan& plan,
                                      const PassEnv& env) {
  return ConfigSpace::Of(kernel.nest, plan.buffers, plan.shapes, env.target,
                         LimitsOf(env.options.artifact));
}

namespace {

// Empty if the call has no tuning key.
std::string ExplainAlgorithm(const LibraryCall& call, const KernelPlan& plan,
                             const PassEnv& env) {
  const std::string key =
      TuningKey(call, plan.buffers, plan.shapes, env.target);
  if (key.empty()) return "";
  const auto found = env.tuning.find(key);
  return absl::StrCat("call ", call.origin, "\n  key ", key, "\n",
                      found == env.tuning.end()
                          ? "  the library chooses when the plan is bound\n"
                          : absl::StrCat("  tuned: ", found->second, "\n"));
}

}  // namespace

absl::StatusOr<std::string> ExplainVariants(const KernelPlan& plan,
                                            const PassEnv& env) {
  std::string out;
  // In a plan of PlanNests, only the keys of ways have been looked up.
  for (const auto& [key, decision] : plan.tuned) {
    absl::StrAppend(&out, "step\n  key ", key, "\n",
                    decision.empty() ? "" : "  decided: ", decision,
                    decision.empty() ? "" : "\n");
  }
  for (const PlannedStep& step : plan.steps) {
    if (const auto* call = std::get_if<LibraryCall>(&step))
      out += ExplainAlgorithm(*call, plan, env);
    if (const auto* flash = std::get_if<FlashKernel>(&step)) {
      out += ToText(*flash,
                    DecideFlash(*flash, plan.shapes, env.target, env.tuning));
    }
    const auto* kernel = std::get_if<PlannedKernel>(&step);
    if (kernel == nullptr) continue;
    ASSIGN_OR_RETURN(const VariantChoice choice,
                     Choose(*kernel, plan, env, true));
    absl::StrAppend(&out, "kernel ", absl::StrJoin(kernel->nest.origins, "+"),
                    "\n");
    if (!choice.key.empty()) absl::StrAppend(&out, "  key ", choice.key, "\n");
    if (!choice.ignored.empty()) {
      absl::StrAppend(&out, "  ignored: ", choice.ignored, "\n");
    } else if (!choice.decision.empty()) {
      absl::StrAppend(&out, "  tuned: ", choice.decision, "\n");
    }
    for (const VariantChoice::Priced& priced : choice.configs) {
      absl::StrAppend(&out, priced.chosen ? "* " : "  ", ToText(priced.config),
                      ": ", ToText(priced.config.price), "\n");
    }
  }
  return out;
}

absl::StatusOr<std::string> ExplainContractions(LoopProgram program,
                                                const PassEnv& env) {
  std::vector<PassRecord> records;
  RETURN_IF_ERROR(
      RunPasses(LoopPipeline(), program, env, kLoopInspection, records));
  std::string out;
  for (const std::string& line : ExplainContractions(
           program, env.target, env.options.artifact, env.tuning))
    absl::StrAppend(&out, line, "\n");
  return out;
}

absl::StatusOr<std::string> ExplainFusion(LoopProgram program,
                                          const PassEnv& env) {
  std::vector<StayedProducer> stayed;
  std::vector<ApartPair> apart;
  std::vector<PassRecord> records;
  for (const Pass<LoopProgram>& pass : LoopPipeline()) {
    // inline_producers runs twice. The second run replaces the reasons of the first,
    // because it judges again all nests that the first one left.
    if (pass.run == RunInlineProducers && !env.options.artifact.no_fusion) {
      InlineOptions options = InlineOptionsOf(env);
      options.explain = true;
      stayed = InlineProducers(program, env.target, options);
    } else if (pass.run == RunFuseLoops && !env.options.artifact.no_fusion) {
      FusionOptions options = FusionOptionsOf(env);
      options.explain = true;
      apart = FuseLoops(program, env.target, options).apart;
    } else {
      RETURN_IF_ERROR(RunPasses<LoopProgram>({pass}, program, env,
                                             kLoopInspection, records));
    }
  }
  std::string out;
  for (const StayedProducer& producer : stayed) {
    absl::StrAppend(
        &out, producer.origins, " not inlined: ", StayedName(producer.because),
        producer.detail.empty() ? "" : absl::StrCat(", ", producer.detail),
        "\n");
  }
  for (const ApartPair& pair : apart) {
    absl::StrAppend(
        &out, pair.first, " | ", pair.second, ": ", ApartName(pair.because),
        pair.detail.empty() ? "" : absl::StrCat(", ", pair.detail), "\n");
  }
  return out;
}

}  // namespace kiln

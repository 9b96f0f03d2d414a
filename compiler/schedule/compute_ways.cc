#include "compiler/schedule/compute_ways.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/contraction_key.h"
#include "compiler/schedule/contraction_loops.h"
#include "compiler/schedule/library_takes.h"
#include "compiler/schedule/matrix_product.h"
#include "compiler/schedule/window_loops.h"

namespace kiln {
namespace {

// The versions rise when equal words come to mean other ways.
constexpr absl::string_view kContractionWords = "kiln who computes 2";
constexpr absl::string_view kAttentionWords = "kiln who attends 1";

// Multiplications up to which loops of ours may be as fast as a library, whose call
// takes its launch at least; and of a product that is small along one axis, which both
// may spend on memory: sums of half types, on tensor cores, up to kMostDepth.
constexpr double kFewProducts = 1 << 22;
constexpr double kManyProducts = 4e9;
constexpr int64_t kSmall = 32;

absl::string_view NameOf(ComputedBy by) {
  switch (by) {
    case ComputedBy::kLibrary:
      return "library";
    case ComputedBy::kLoops:
      return "loops";
    case ComputedBy::kFlash:
      return "flash";
  }
  return "";
}

bool IsWorthMeasuring(const Contraction& c, const ShapeEnv& shapes) {
  double products = 1;
  bool small = false;
  const size_t first = c.is_batched() ? 1 : 0;
  for (size_t k = 0; k < c.extents.size(); ++k) {
    const int64_t extent = shapes.Hint(c.extents[k]);
    const bool sum = k + 1 == c.extents.size() && IsHalf(c.result().view.dtype);
    products *= static_cast<double>(extent);
    small = small || (k >= first && extent < (sum ? kMostDepth + 1 : kSmall));
  }
  return products > 0 && products <= (small ? kManyProducts : kFewProducts);
}

bool HasLoops(const Contraction& c, const std::vector<Buffer>& buffers,
              const ShapeEnv& shapes) {
  if (c.form == Contraction::Form::kConvolution)
    return WindowLoopsOf(c, buffers, shapes).has_value();
  return IsWorthMeasuring(c, shapes) && NestOf(c, buffers, shapes).has_value();
}

// `other`: what may compute it beside the choice, and what is said of that.
DecidedChoice Decide(ContractionChoice choice, ContractionChoice other,
                     std::string key, const TuningTable& tuning) {
  DecidedChoice decided = {.choice = std::move(choice), .key = std::move(key)};
  const auto found = tuning.find(decided.key);
  if (found == tuning.end()) return decided;
  decided.decision = found->second;
  if (decided.decision == NameOf(other.by)) decided.choice = std::move(other);
  if (decided.decision == NameOf(decided.choice.by)) {
    decided.note = absl::StrCat("tuned: ", decided.decision);
  } else {
    decided.note = absl::StrCat("ignored: nobody who may compute it is \"",
                                absl::CEscape(decided.decision), "\"");
  }
  return decided;
}

// Whether each row has keys that it attends to.
bool HasKeysInAllRows(const Attention& a) {
  return !a.arrays[Attention::kBias].has_value() && a.window == 0 &&
         a.causal != Attention::Causal::kBottomRight;
}

DecidedChoice DecideStep(const LoopStep& step, const LoopProgram& program,
                         const Target& target, const ArtifactOptions& options) {
  if (const auto* c = std::get_if<Contraction>(&step))
    return DecideContraction(*c, program.buffers, program.shapes, target,
                             options, {});
  if (const auto* attention = std::get_if<Attention>(&step)) {
    return DecideAttention(*attention, program.buffers, program.shapes, target,
                           options, {});
  }
  return {};
}

}  // namespace

DecidedChoice DecideContraction(const Contraction& c,
                                const std::vector<Buffer>& buffers,
                                const ShapeEnv& shapes, const Target& target,
                                const ArtifactOptions& options,
                                const TuningTable& tuning) {
  ContractionChoice choice =
      ChooseContraction(c, buffers, shapes, target, options);
  std::string library;
  if (target.kind != TargetKind::kCuda ||
      !LibraryTakes(c, buffers, shapes, target, library) ||
      !HasLoops(c, buffers, shapes)) {
    return {.choice = std::move(choice)};
  }
  ContractionChoice other = {ComputedBy::kLibrary, library};
  if (choice.by == ComputedBy::kLibrary)
    other = {ComputedBy::kLoops, "own loops"};
  return Decide(
      std::move(choice), std::move(other),
      WayKeyOf(FormName(c.form), kContractionWords, c, buffers, shapes, target),
      tuning);
}

DecidedChoice DecideAttention(const Attention& attention,
                              const std::vector<Buffer>& buffers,
                              const ShapeEnv& shapes, const Target& target,
                              const ArtifactOptions& options,
                              const TuningTable& tuning) {
  ContractionChoice choice =
      ChooseAttentionStep(attention, shapes, target, options);
  if (target.kind != TargetKind::kCuda || options.own_attention ||
      choice.by != ComputedBy::kLibrary || attention.dropout > 0 ||
      !HasKeysInAllRows(attention) || !IsForCudnn(attention, shapes, target)) {
    return {.choice = std::move(choice)};
  }
  return Decide(std::move(choice), {ComputedBy::kFlash, "own flash"},
                WayKeyOf("attention", kAttentionWords, attention, buffers,
                         shapes, target),
                tuning);
}

std::vector<StepAlone> ComputeWays(const LoopProgram& program,
                                   const Target& target,
                                   const ArtifactOptions& options,
                                   absl::string_view key) {
  if (key.empty()) return {};
  for (const LoopStep& step : program.steps) {
    const DecidedChoice decided = DecideStep(step, program, target, options);
    if (decided.key != key) continue;
    ComputedBy other = ComputedBy::kLibrary;
    if (decided.choice.by == ComputedBy::kLibrary) {
      other = std::holds_alternative<Attention>(step) ? ComputedBy::kFlash
                                                      : ComputedBy::kLoops;
    }
    std::vector<StepAlone> ways;
    for (const ComputedBy by : {decided.choice.by, other})
      ways.push_back({std::string(NameOf(by)), Alone(program, step)});
    return ways;
  }
  return {};
}

}  // namespace kiln

#include "compiler/schedule/choose_contraction.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "compiler/graph/attention_choice.h"
#include "compiler/schedule/candidate_limits.h"
#include "compiler/schedule/compute_ways.h"
#include "compiler/schedule/contraction_loops.h"
#include "compiler/schedule/hint_bytes.h"
#include "compiler/schedule/library_takes.h"
#include "compiler/schedule/matrix_product.h"
#include "compiler/schedule/nest_price.h"
#include "compiler/schedule/window_loops.h"

namespace kiln {
namespace {

// Many tiny products. Source: Inductor's decompose_mm and decompose_bmm, whose
// thresholds its users know.
constexpr int64_t kManyProducts = 10240;
constexpr int64_t kTiny = 32;
// The same on a CPU.
constexpr int64_t kMostOnCpu = 1;
constexpr int64_t kMostOthersOnCpu = 2048;
// A library call is not worth its cost for so few multiplications. Inductor's rule for
// a CPU has no such bound, since it is off unless a program asks for it.
constexpr int64_t kFewTerms = 512;

// Whether a product is bound by memory, and why.
struct Bound {
  bool by_memory = false;
  absl::string_view ground;
};

// The sizes of a product, as far as they are known.
struct Sizes {
  int64_t batch = 0;  // 0: none, or one that may change
  int64_t m = 0, n = 0, k = 0;
};

std::optional<Sizes> SizesOf(const Contraction& c) {
  const size_t first = c.is_batched() ? 1 : 0;
  Sizes sizes;
  int64_t* const places[] = {&sizes.m, &sizes.n, &sizes.k};
  for (size_t i = 0; i < 3; ++i) {
    const SymExpr& extent = c.extents[first + i];
    if (!extent.is_constant()) return std::nullopt;
    *places[i] = extent.constant();
  }
  if (first == 1 && c.extents[0].is_constant())
    sizes.batch = c.extents[0].constant();
  return sizes;
}

// Whether Inductor's decompose_mm, decompose_addmm or decompose_bmm takes it.
bool InductorDecomposes(const Contraction& c, const Target& target) {
  const std::optional<Sizes> sizes = SizesOf(c);
  if (!sizes.has_value()) return false;
  const auto [batch, m, n, k] = *sizes;
  if (target.kind == TargetKind::kCpu) {
    return c.is_batched() ? batch == kMostOnCpu
                          : m == kMostOnCpu && n <= kMostOthersOnCpu &&
                                k <= kMostOthersOnCpu;
  }
  const int tiny = (m < kTiny) + (n < kTiny) + (k < kTiny);
  return c.is_batched() ? batch >= kManyProducts && tiny >= 2
                        : m >= kManyProducts && n < kTiny && k < kTiny;
}

Bound BoundOf(const Contraction& c, const Target& target) {
  const std::optional<Sizes> sizes = SizesOf(c);
  if (!sizes.has_value()) return {false, "a size that may change"};
  const auto [batch, m, n, k] = *sizes;
  if (m == 0 || n == 0 || k == 0) return {false, "a size of 0"};
  if (k == 1) return {true, "an outer product"};
  if (m == 1 || n == 1) return {true, "a product with a vector"};
  if (target.kind == TargetKind::kCpu) {
    const bool few = m <= kFewTerms / n && m * n <= kFewTerms / k;
    if (few && c.is_batched() && InductorDecomposes(c, target))
      return {true, "a tiny product"};
    return {false, "a product of matrices"};
  }
  if (InductorDecomposes(c, target)) return {true, "tiny products"};
  return {false, m < kTiny || n < kTiny || k < kTiny
                     ? "few products with a small size"
                     : "a product of matrices"};
}

// What cuDNN's engine takes for a product of a depthwise convolution: 0.76 to 1.0 ps
// channels-first, 2.5 to 3.9 channels-last, and for one of a gradient 4.9 on the
// average of both, on an H100 (bench/records/h100_contractions.md), which has this many
// multiprocessors.
constexpr double kDepthwiseNs = 0.00076;
constexpr double kDepthwiseChannelsLastNs = 0.0025;
constexpr double kDepthwiseGradientNs = 0.0049;
constexpr double kMultiprocessors = 132;

double LibraryNs(const Contraction& c, const ShapeEnv& shapes,
                 const Target& target) {
  bool channels_last = false;
  for (const size_t place : {Contraction::kA, Contraction::kC})
    channels_last = channels_last || c.operands[place].view.strides[1].Is(1);
  const double each = c.written != Contraction::kC ? kDepthwiseGradientNs
                      : channels_last              ? kDepthwiseChannelsLastNs
                                                   : kDepthwiseNs;
  return kLaunchNs + WindowProducts(c, shapes) * each * kMultiprocessors /
                         target.multiprocessors;
}

// What the nests take one after another, with `more` buffers of their own.
double PriceOf(absl::Span<const LoopNest> nests,
               const std::vector<Buffer>& buffers,
               absl::Span<const Buffer> more, const ShapeEnv& shapes,
               const Target& target, const ArtifactOptions& options) {
  LoopProgram alone;
  alone.shapes = shapes;
  alone.buffers = buffers;
  alone.buffers.insert(alone.buffers.end(), more.begin(), more.end());
  NestPricer pricer(alone, target, LimitsOf(options));
  double ns = 0;
  for (const LoopNest& nest : nests) ns += pricer.PriceOf(nest);
  return ns;
}

// Nests of ours for the convolution, where they are cheaper than cuDNN's kernel.
// `found` says whether there are any.
std::optional<WindowLoops> CheaperLoops(const Contraction& c,
                                        const std::vector<Buffer>& buffers,
                                        const ShapeEnv& shapes,
                                        const Target& target,
                                        const ArtifactOptions& options,
                                        bool& found) {
  found = false;
  if (target.kind == TargetKind::kCpu) return std::nullopt;
  std::optional<WindowLoops> loops = WindowLoopsOf(c, buffers, shapes);
  if (!loops.has_value()) return std::nullopt;
  found = true;
  if (PriceOf(loops->nests, buffers, loops->buffers, shapes, target, options) >=
      LibraryNs(c, shapes, target)) {
    return std::nullopt;
  }
  return loops;
}

// What cuBLASLt's kernels take for a result of a short sum of half types: 1.11, 1.03
// and 0.86 ps for sums of 8, 16 and 32 terms, on an H100
// (bench/records/h100_contractions.md).
constexpr double kShortSumNs = 0.00086;
// Shorter sums are not loops of a kernel's own: unroll_reductions writes them out.
constexpr int64_t kLeastDepth = 8;

// Whether tensor cores may compute loops of ours for the product, with a short sum.
bool MayTakeTensorCores(const Contraction& c, const Sizes& sizes,
                        const Target& target) {
  return target.kind == TargetKind::kCuda &&
         target.compute_capability >= kHalfProducts &&
         IsHalf(c.factor(0).view.dtype) && sizes.k >= kLeastDepth &&
         sizes.k <= kMostDepth && sizes.m >= kTiny && sizes.n >= kTiny;
}

// Whether a nest for the product, by tensor cores, takes less than cuBLASLt's kernel,
// which writes large results more slowly than memory takes them.
bool WritesFasterThanLibrary(const Contraction& c,
                             const std::vector<Buffer>& buffers,
                             const ShapeEnv& shapes, const Target& target,
                             const ArtifactOptions& options) {
  const std::optional<Sizes> sizes = SizesOf(c);
  // Of batches its kernels are faster: 64 x 512 x 512 x 32 takes 19 us, ours 21.
  if (!sizes.has_value() || c.is_batched() ||
      !MayTakeTensorCores(c, *sizes, target)) {
    return false;
  }
  const std::optional<LoopNest> nest = NestOf(c, buffers, shapes);
  if (!nest.has_value()) return false;
  double bytes = 0;
  for (const ContractionOperand& operand : c.operands)
    bytes += static_cast<double>(HintBytes(operand.view, shapes));
  const auto results =
      static_cast<double>(sizes->m) * static_cast<double>(sizes->n);
  const double library_ns =
      kLaunchNs + std::max(bytes / target.memory_bytes_per_ns,
                           results * kShortSumNs * kMultiprocessors /
                               target.multiprocessors);
  return PriceOf(absl::MakeConstSpan(&*nest, 1), buffers, {}, shapes, target,
                 options) +
             kLeastSavedNs <
         library_ns;
}

AttentionForm FormOf(const Attention& a) {
  return {a.at(Attention::kQuery).dtype,
          a.extents[Attention::kB],
          a.extents[Attention::kH],
          a.extents[Attention::kX],
          a.extents[Attention::kM],
          a.extents[Attention::kN],
          a.extents[Attention::kE],
          a.extents[Attention::kV],
          a.dropout,
          a.causal != Attention::Causal::kNone,
          a.arrays[Attention::kBias].has_value()};
}

// The choice between parts and a step is made (graph/attention_choice.h), and its guards
// are taken: here the sizes decide as they did there. Of a step that a client wrote
// itself no guard was taken: unknown sizes are cuDNN's.
AttentionChoice AttentionChoiceOf(const Attention& attention,
                                  const ShapeEnv& shapes,
                                  const Target& target) {
  ShapeEnv decided = shapes;
  AttentionChoice choice = ChooseAttention(FormOf(attention), decided, target);
  if (choice.by_sizes && decided.guards().size() > shapes.guards().size())
    return {AttentionBy::kLibrary, "cuDNN"};
  return choice;
}

std::string LineOf(const Attention& a, std::string ground,
                   const Target& target) {
  if (a.arrays[Attention::kBias].has_value())
    absl::StrAppend(&ground, ", bias");
  if (a.causal != Attention::Causal::kNone)
    absl::StrAppend(&ground, ", causal ", CausalName(a.causal));
  if (a.dropout > 0) absl::StrAppend(&ground, ", dropout");
  return ExplainAttention(
      absl::StrCat(a.backward ? "attention_backward " : "attention ", a.origin),
      FormOf(a), ground, target);
}

std::string Line(const Contraction& c, const ContractionChoice& choice) {
  std::string axes;
  for (size_t k = 0; k < c.extents.size(); ++k) {
    absl::StrAppend(&axes, k > 0 ? ", " : "", AxisName(c, k), " ",
                    c.extents[k].ToString());
  }
  return absl::StrCat(FormName(c.form), " ", absl::StrJoin(c.origins, "+"),
                      " [", axes, "] ", ShortName(c.result().view.dtype), ": ",
                      choice.ground, c.tuned.empty() ? "" : "; ", c.tuned);
}

// Notes are for people.
void Note(const DecidedChoice& decided, LoopProgram& program, Contraction& c) {
  if (decided.key.empty()) return;
  program.tuned[decided.key] = decided.decision;
  if (decided.note.empty()) return;
  absl::StrAppend(&c.tuned, c.tuned.empty() ? "" : "; ", decided.note);
}

}  // namespace

ContractionChoice ChooseContraction(const Contraction& c,
                                    const std::vector<Buffer>& buffers,
                                    const ShapeEnv& shapes,
                                    const Target& target,
                                    const ArtifactOptions& options) {
  std::string library;
  const bool taken = LibraryTakes(c, buffers, shapes, target, library);
  if (c.form != Contraction::Form::kProduct) {
    bool found = false;
    if (CheaperLoops(c, buffers, shapes, target, options, found).has_value())
      return {ComputedBy::kLoops, "own loops, a window for each channel"};
    return {ComputedBy::kLibrary,
            absl::StrCat(library, found ? ": loops of ours would take longer"
                                        : ": loops of ours do not compute it")};
  }
  Bound bound = BoundOf(c, target);
  if (taken && !bound.by_memory &&
      WritesFasterThanLibrary(c, buffers, shapes, target, options)) {
    bound = {true, "a short sum on tensor cores, bound by its result"};
  }
  if (taken && !bound.by_memory)
    return {ComputedBy::kLibrary, absl::StrCat(library, ": ", bound.ground)};
  if (!NestOf(c, buffers, shapes).has_value()) {
    return {ComputedBy::kLibrary,
            absl::StrCat(library, ": ", bound.ground,
                         ", which loops of ours do not take")};
  }
  return {ComputedBy::kLoops,
          taken ? absl::StrCat("own loops, ", bound.ground)
                : absl::StrCat("own loops, no library has ", library)};
}

bool IsForCudnn(const Attention& attention, const ShapeEnv& shapes,
                const Target& target) {
  return target.kind == TargetKind::kCuda &&
         AttentionChoiceOf(attention, shapes, target).by ==
             AttentionBy::kLibrary;
}

// A step that a client wrote itself may be one that nobody computes: the library is
// left to say so.
ContractionChoice ChooseAttentionStep(const Attention& attention,
                                      const ShapeEnv& shapes,
                                      const Target& target,
                                      const ArtifactOptions& options) {
  AttentionChoice choice = AttentionChoiceOf(attention, shapes, target);
  if (choice.by == AttentionBy::kOwn)
    return {ComputedBy::kFlash, std::move(choice.ground)};
  const bool by_cudnn =
      target.kind == TargetKind::kCuda && choice.by == AttentionBy::kLibrary;
  if (by_cudnn && options.own_attention)
    return {ComputedBy::kFlash, "own flash, as the options ask"};
  if (by_cudnn && attention.causal == Attention::Causal::kBottomRight)
    return {ComputedBy::kFlash, "own flash, cuDNN has no bottom-right mask"};
  return {ComputedBy::kLibrary, std::move(choice.ground)};
}

int64_t ChooseContractions(LoopProgram& program, const Target& target,
                           const ArtifactOptions& options,
                           const TuningTable& tuning) {
  int64_t changed = 0;
  std::vector<LoopStep> steps;
  steps.reserve(program.steps.size());
  for (LoopStep& step : program.steps) {
    if (auto* attention = std::get_if<Attention>(&step)) {
      const DecidedChoice decided = DecideAttention(
          *attention, program.buffers, program.shapes, target, options, tuning);
      if (!decided.key.empty()) program.tuned[decided.key] = decided.decision;
      attention->own = decided.choice.by == ComputedBy::kFlash;
      changed += attention->own;
    }
    auto* c = std::get_if<Contraction>(&step);
    if (c == nullptr) {
      steps.push_back(std::move(step));
      continue;
    }
    const DecidedChoice decided = DecideContraction(
        *c, program.buffers, program.shapes, target, options, tuning);
    const ContractionChoice& choice = decided.choice;
    Note(decided, program, *c);
    if (choice.by == ComputedBy::kLibrary) {
      steps.push_back(std::move(step));
      continue;
    }
    program.replaced_contractions.push_back(Line(*c, choice));
    if (c->form == Contraction::Form::kProduct &&
        InductorDecomposes(*c, target))
      program.tiny_products.push_back(c->origins.front());
    ++changed;
    if (c->form == Contraction::Form::kProduct) {
      steps.push_back(NestOf(*c, program.buffers, program.shapes).value());
      continue;
    }
    WindowLoops loops =
        WindowLoopsOf(*c, program.buffers, program.shapes).value();
    for (LoopNest& nest : loops.nests) steps.push_back(std::move(nest));
    for (Buffer& buffer : loops.buffers)
      program.buffers.push_back(std::move(buffer));
  }
  program.steps = std::move(steps);
  return changed;
}

std::vector<std::string> ExplainContractions(const LoopProgram& program,
                                             const Target& target,
                                             const ArtifactOptions& options,
                                             const TuningTable& tuning) {
  std::vector<std::string> lines = program.replaced_contractions;
  for (const LoopStep& step : program.steps) {
    if (const auto* attention = std::get_if<Attention>(&step)) {
      const DecidedChoice decided = DecideAttention(
          *attention, program.buffers, program.shapes, target, options, tuning);
      lines.push_back(LineOf(*attention, decided.choice.ground, target));
      if (!decided.note.empty())
        absl::StrAppend(&lines.back(), "; ", decided.note);
    }
    const auto* c = std::get_if<Contraction>(&step);
    if (c == nullptr) continue;
    ContractionChoice choice =
        ChooseContraction(*c, program.buffers, program.shapes, target, options);
    // A step that loops would be by the rules is a decision's.
    if (choice.by == ComputedBy::kLoops)
      LibraryTakes(*c, program.buffers, program.shapes, target, choice.ground);
    lines.push_back(Line(*c, choice));
  }
  return lines;
}

}  // namespace kiln

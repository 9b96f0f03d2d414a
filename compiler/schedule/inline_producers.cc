#include "compiler/schedule/inline_producers.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/store_axes.h"
#include "compiler/schedule/buffer_uses.h"
#include "compiler/schedule/fusion_rules.h"
#include "compiler/schedule/fusion_unit.h"
#include "compiler/schedule/hint_bytes.h"
#include "compiler/schedule/nest_price.h"

namespace kiln {

namespace {

// The factor by which prices of nests may be wrong before the nests are fused.
constexpr double kErrorOfPrices = 1.1;

// The nest that replaces loads of a buffer, or null.
using ProducerOf = absl::FunctionRef<const LoopNest*(BufferId)>;

// A nest that may replace the loads of its buffer.
struct Producer {
  bool inlined = false;
  LoopNest nest;
  size_t step = 0;
  int loops = 1;                 // without those of inlined producers
  std::vector<BufferId> within;  // inlined into it, and its own buffer; sorted
};

struct InlineVerdict {
  StayedBecause because = StayedBecause::kInlined;
  std::string detail;
};

class Inliner {
 public:
  Inliner(LoopProgram& program, const Target& target,
          const InlineOptions& options)
      : program_(program),
        target_(target),
        options_(options),
        limits_(options.limits),
        pricer_(program, target, options.kernels),
        uses_(CountUses(program)),
        reader_ns_(program.steps.size(), -1),
        producers_(program.buffers.size()) {}

  std::vector<StayedProducer> Run();

 private:
  InlineVerdict Judge(const LoopNest& nest, size_t step);
  // Additional bytes of temporaries that are live at once if the nest of step `step` is
  // inlined.
  int64_t HeldBytes(const LoopNest& nest, size_t step) const;
  InlineVerdict JudgeWork(const LoopNest& nest) const;
  InlineVerdict JudgeRepeated(const LoopNest& nest);
  // Nanoseconds that the nest adds to the program if it stays.
  double PriceApart(const LoopNest& nest);
  // Nanoseconds that a kernel of `first` and then `second` takes beyond `known`. Infinite
  // if they cannot be one kernel.
  double PriceJoined(const LoopNest& first, const LoopNest& second,
                     const LoopNest& known);
  void NoteStayed(const LoopNest& nest, size_t step, InlineVerdict verdict);
  // `whole`, the nest of `step` with its producers, stays: `verdict` says why. `widening`
  // is the same nest without them. If each of its readers may widen by itself, the
  // producer stays in its place, whose values are fewer bytes.
  void StoreNarrow(LoopNest widening, size_t step, LoopNest& whole,
                   InlineVerdict& verdict);
  // The nest with the loads of inlined buffers replaced.
  LoopNest InlineInto(LoopNest nest);
  // The buffers of the producers that are inlined into `nest`, and of those that are
  // inlined into these, sorted. Producers that exceed the limit are not inlined after
  // all.
  std::vector<BufferId> ProducersFor(const LoopNest& nest);
  // The nest with loads replaced by their producers.
  LoopNest WithProducers(const LoopNest& nest, ProducerOf producer_of) const;
  // Adds to `body` the value that `load` reads, computed by `producer`.
  ScalarId ReplaceLoad(const LoopNest& producer, const ScalarNode& load,
                       absl::Span<const SymExpr> extents,
                       BodyBuilder& body) const;

  LoopProgram& program_;
  const Target& target_;
  const InlineOptions& options_;
  const InlineLimits& limits_;
  NestPricer pricer_;
  std::vector<BufferUses> uses_;
  std::vector<double> reader_ns_;    // by step: price; negative: not known yet
  std::vector<Producer> producers_;  // by buffer
  std::vector<std::optional<LoopStep>> steps_;  // that remain
  std::vector<BufferId> taken_;                 // inlined into the current nest
  std::vector<std::pair<size_t, StayedProducer>> stayed_;  // with their steps
};

// Whether computing the nest where it is read costs next to nothing: it has no loads and
// no costly operations.
bool IsFree(const LoopNest& nest) {
  return std::none_of(nest.body.begin(), nest.body.end(),
                      [](const ScalarNode& node) {
                        return node.op == ScalarOp::kLoad || IsCostly(node.op);
                      });
}

// The buffer whose values the nest gives in a wider type, if it does nothing else.
std::optional<BufferId> WidenedBy(const LoopNest& nest) {
  if (nest.body.size() != 2) return std::nullopt;
  const ScalarNode &load = nest.body[0], &cast = nest.body[1];
  if (load.op != ScalarOp::kLoad || cast.op != ScalarOp::kCast ||
      SizeInBytes(cast.dtype) <= SizeInBytes(load.dtype)) {
    return std::nullopt;
  }
  return load.buffer;
}

InlineVerdict Inliner::Judge(const LoopNest& nest, size_t step) {
  if (nest.stores.size() != 1 || HasReduction(nest) ||
      nest.stores[0].mode != StoreMode::kSet ||
      nest.stores[0].mask != Store::kNoMask) {
    return {StayedBecause::kNotPointwise, ""};
  }
  const Store& store = nest.stores[0];
  const Buffer& buffer = program_.buffers[store.buffer];
  const BufferUses& uses = uses_[store.buffer];
  if (IsKept(buffer) || uses.as_memory)
    return {StayedBecause::kMemoryNeeded, buffer.name};
  if (uses.writers != 1 ||
      !AxesAt(nest, store, buffer, store.index).has_value()) {
    return {StayedBecause::kStorePartial, buffer.name};
  }
  if (static_cast<int>(nest.body.size()) > limits_.body)
    return {StayedBecause::kBodyTooLarge,
            absl::StrCat(nest.body.size(), " nodes")};
  if (uses.reader_steps.empty()) return {};
  for (const ScalarNode& node : nest.body) {
    if (node.op != ScalarOp::kLoad) continue;
    for (const size_t writer : uses_[node.buffer].writer_steps) {
      if (writer > step && writer <= uses.reader_steps.back())
        return {StayedBecause::kOverwritten,
                program_.buffers[node.buffer].name};
    }
  }
  const int64_t held = HeldBytes(nest, step);
  if (held >= kLeastHeldBytes)
    return {StayedBecause::kHoldsMemory, absl::StrCat(held, " bytes")};
  const bool repeated =
      uses.loads > 1 ||
      uses.most_points_hint > program_.shapes.Hint(PointCount(nest));
  return !repeated || IsFree(nest) ? InlineVerdict() : JudgeRepeated(nest);
}

int64_t Inliner::HeldBytes(const LoopNest& nest, size_t step) const {
  const auto bytes = [&](BufferId b) {
    const Buffer& buffer = program_.buffers[b];
    return buffer.kind == BufferKind::kTemporary
               ? HintBytes(buffer, program_.shapes)
               : 0;
  };
  const BufferId result = nest.stores[0].buffer;
  const size_t last = uses_[result].reader_steps.back();
  std::vector<BufferId> read;
  for (const ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kLoad && uses_[node.buffer].last_step < last)
      read.push_back(node.buffer);
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  int64_t held = -bytes(result);
  for (const BufferId b : read) held += bytes(b);
  if (held < kLeastHeldBytes) return 0;
  // Counts only buffers that certainly get memory in between.
  int64_t made = 0;
  for (BufferId b = 0; b < uses_.size(); ++b) {
    const BufferUses& uses = uses_[b];
    if (uses.as_memory && uses.first_step > step && uses.first_step < last)
      made = std::max(made, bytes(b));
  }
  return std::min(held, made);
}

// Whether the work that would be repeated is within the limits.
InlineVerdict Inliner::JudgeWork(const LoopNest& nest) const {
  const BufferUses& uses = uses_[nest.stores[0].buffer];
  int loads = 0, ops = 0, costly = 0, random = 0;
  for (const ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kLoad) {
      ++loads;
    } else if (node.op != ScalarOp::kConstant && node.op != ScalarOp::kIndex &&
               node.op != ScalarOp::kCast && !IsIndexCheck(node.op)) {
      ++ops;
    }
    costly += IsCostly(node.op);
    random += node.op == ScalarOp::kRandom;
  }
  const int64_t points = program_.shapes.Hint(PointCount(nest));
  const bool wider = uses.most_points_hint > points;
  const auto work = [&] {
    return absl::StrCat(loads, " loads, ", ops, " operations, ", costly,
                        " costly, read ", uses.loads, " times",
                        wider ? absl::StrCat(", at ", uses.most_points_hint,
                                             " points of ", points)
                              : "");
  };
  if (uses.loads > 1) {
    if (loads > limits_.loads_when_shared || ops > limits_.ops_when_shared)
      return {StayedBecause::kTooMuchToRepeat, work()};
    if (random > 0 || (costly > 0 && target_.kind == TargetKind::kCpu))
      return {StayedBecause::kCostlyToRepeat, work()};
  }
  if (wider) {
    if (costly > 0) return {StayedBecause::kCostlyToRepeat, work()};
    if (loads > limits_.loads_when_repeated)
      return {StayedBecause::kTooMuchToRepeat, work()};
  }
  return {};
}

// Decides by price if the difference is clear, otherwise by the limits.
InlineVerdict Inliner::JudgeRepeated(const LoopNest& nest) {
  const BufferId buffer = nest.stores[0].buffer;
  const auto this_one = [&](BufferId b) {
    return b == buffer ? &nest : nullptr;
  };
  double inlined_ns = 0, readers_ns = 0;
  for (const size_t step : uses_[buffer].reader_steps) {
    // On both sides without other producers.
    const auto& reader = std::get<LoopNest>(program_.steps[step]);
    inlined_ns += pricer_.PriceOfPair(
        reader, nest, [&] { return WithProducers(reader, this_one); });
    if (reader_ns_[step] < 0) reader_ns_[step] = pricer_.PriceOf(reader);
    readers_ns += reader_ns_[step];
  }
  const auto clearly_less = [](double ns, double other_ns) {
    return ns * kErrorOfPrices + kLeastSavedNs < other_ns;
  };
  InlineVerdict verdict = JudgeWork(nest);
  const bool within_limits = verdict.because == StayedBecause::kInlined;
  // The price apart takes long to find, and is between that of the readers alone and that
  // with a kernel more: often these decide.
  if (!options_.explain) {
    if (within_limits && !clearly_less(readers_ns, inlined_ns)) return verdict;
    if (!within_limits &&
        !clearly_less(inlined_ns, readers_ns + pricer_.PriceOf(nest)))
      return verdict;
  }
  const double apart_ns = readers_ns + std::max(0.0, PriceApart(nest));
  const std::string prices =
      absl::StrFormat("%.2f us against %.2f", inlined_ns / 1e3, apart_ns / 1e3);
  if (within_limits) {
    if (clearly_less(apart_ns, inlined_ns))
      verdict = {StayedBecause::kSavesTooLittle, prices};
  } else if (clearly_less(inlined_ns, apart_ns)) {
    verdict = {};
  } else {
    absl::StrAppend(&verdict.detail, ", ", prices);
  }
  return verdict;
}

double Inliner::PriceJoined(const LoopNest& first, const LoopNest& second,
                            const LoopNest& known) {
  const auto unit = [&](const LoopNest& nest) {
    return MakeFusionUnit(nest, nest.loops(), program_.buffers,
                          program_.shapes);
  };
  const FusionUnit a = unit(first), b = unit(second);
  FusionLimits limits;
  limits.nests = limits_.loops;
  const FusionVerdict verdict =
      JudgeFusion(a, b, program_.buffers, program_.shapes, limits);
  if (!verdict.fuse()) return std::numeric_limits<double>::infinity();
  return pricer_.PriceOf(MergeNests(a, b, verdict.alignment, program_.shapes)) -
         pricer_.PriceOf(known);
}

double Inliner::PriceApart(const LoopNest& nest) {
  double ns = pricer_.PriceOf(nest);
  // The nest could be fused with the last step whose result it reads, or with the first
  // step that reads its own result. No step has to run in between.
  size_t before = 0;
  bool any = false;
  for (const ScalarNode& node : nest.body) {
    if (node.op != ScalarOp::kLoad) continue;
    for (const size_t writer : uses_[node.buffer].writer_steps) {
      before = any ? std::max(before, writer) : writer;
      any = true;
    }
  }
  if (any && steps_[before].has_value()) {
    const auto* writer = std::get_if<LoopNest>(&*steps_[before]);
    if (writer != nullptr)
      ns = std::min(ns, PriceJoined(*writer, nest, *writer));
  }
  const auto& reader = std::get<LoopNest>(
      program_.steps[uses_[nest.stores[0].buffer].reader_steps[0]]);
  return std::min(ns, PriceJoined(nest, reader, reader));
}

void Inliner::NoteStayed(const LoopNest& nest, size_t step,
                         InlineVerdict verdict) {
  const bool read = std::any_of(
      nest.stores.begin(), nest.stores.end(),
      [&](const Store& store) { return uses_[store.buffer].loads > 0; });
  if (!options_.explain || !read) return;
  stayed_.push_back({step,
                     {absl::StrJoin(nest.origins, "+"), verdict.because,
                      std::move(verdict.detail)}});
}

void Inliner::StoreNarrow(LoopNest widening, size_t step, LoopNest& whole,
                          InlineVerdict& verdict) {
  const BufferId narrow = widening.body[0].buffer;
  Producer& producer = producers_[narrow];
  const auto points = [&](const LoopNest& nest) {
    return program_.shapes.Hint(PointCount(nest));
  };
  if (!producer.inlined || uses_[narrow].loads != 1 ||
      points(producer.nest) > points(widening)) {
    return;
  }
  InlineVerdict alone = Judge(widening, step);
  if (alone.because != StayedBecause::kInlined) return;
  uses_[narrow].last_step = uses_[widening.stores[0].buffer].last_step;
  absl::StrAppend(&verdict.detail, ", read through ",
                  absl::StrJoin(widening.origins, "+"));
  NoteStayed(producer.nest, producer.step, std::move(verdict));
  producer.inlined = false;
  steps_[producer.step] = std::move(producer.nest);
  taken_.clear();
  whole = std::move(widening);
  verdict = std::move(alone);
}

ScalarId Inliner::ReplaceLoad(const LoopNest& producer, const ScalarNode& load,
                              absl::Span<const SymExpr> extents,
                              BodyBuilder& body) const {
  const Store& store = producer.stores[0];
  std::vector<SymExpr> axes =
      *AxesAt(producer, store, program_.buffers[store.buffer], load.index);
  for (SymExpr& e : axes) e = SimplifyIndex(e, extents, program_.shapes);
  const ScalarId mask = load.args.empty() ? Store::kNoMask : load.args[0];
  const auto keep = [](const ScalarNode&) -> std::optional<ScalarId> {
    return std::nullopt;
  };
  const std::vector<ScalarId> ids =
      CopyBody(producer.body, axes, mask, keep, body);
  ScalarId value = ids[store.value];
  if (mask == Store::kNoMask) return value;
  const DType dtype = body.dtype(value), compute = ComputeType(dtype);
  ScalarNode other{ScalarOp::kConstant, compute};
  other.number = load.number;
  value =
      body.Where(mask, body.Cast(compute, value), body.Add(std::move(other)));
  return body.Cast(dtype, value);
}

std::vector<BufferId> Inliner::ProducersFor(const LoopNest& nest) {
  std::vector<BufferId> all;
  const auto loops = [&](const std::vector<BufferId>& producers) {
    int sum = nest.loops();
    for (const BufferId b : producers) sum += producers_[b].loops;
    return sum;
  };
  for (const ScalarNode& node : nest.body) {
    if (node.op != ScalarOp::kLoad || !producers_[node.buffer].inlined)
      continue;
    Producer& producer = producers_[node.buffer];
    std::vector<BufferId> with;
    std::set_union(all.begin(), all.end(), producer.within.begin(),
                   producer.within.end(), std::back_inserter(with));
    if (loops(with) <= limits_.loops) {
      all = std::move(with);
    } else {
      NoteStayed(producer.nest, producer.step,
                 {StayedBecause::kReaderTooLarge,
                  absl::StrCat(loops(with), " loops")});
      producer.inlined = false;
      steps_[producer.step] = std::move(producer.nest);
    }
  }
  return all;
}

LoopNest Inliner::WithProducers(const LoopNest& nest,
                                ProducerOf producer_of) const {
  LoopNest result;
  result.axes = nest.axes;
  result.inlined = nest.inlined;
  result.merged = nest.merged;
  const std::vector<SymExpr> extents = ExtentsOf(nest);
  BodyBuilder body;
  body.KnowExtents(extents, program_.shapes);
  const auto replace = [&](const ScalarNode& load) -> std::optional<ScalarId> {
    const LoopNest* producer = producer_of(load.buffer);
    if (producer == nullptr) return std::nullopt;
    TakeOrigins(*producer, result);
    return ReplaceLoad(*producer, load, extents, body);
  };
  const std::vector<ScalarId> ids =
      CopyBody(nest.body, kSameAxes, Store::kNoMask, replace, body);
  TakeOrigins(nest, result);
  for (const Store& store : nest.stores)
    result.stores.push_back(CopyStore(store, kSameAxes, ids, body));
  result.body = body.Take();
  DropDeadNodes(result);
  return SplitAtDivisions(std::move(result), program_.shapes);
}

LoopNest Inliner::InlineInto(LoopNest nest) {
  taken_ = ProducersFor(nest);
  if (taken_.empty()) return nest;
  LoopNest result = WithProducers(nest, [&](BufferId b) -> const LoopNest* {
    return producers_[b].inlined ? &producers_[b].nest : nullptr;
  });
  for (const BufferId b : taken_) result.inlined += producers_[b].loops;
  return result;
}

std::vector<StayedProducer> Inliner::Run() {
  steps_.resize(program_.steps.size());
  for (size_t s = 0; s < program_.steps.size(); ++s) {
    auto* nest = std::get_if<LoopNest>(&program_.steps[s]);
    if (nest == nullptr) {
      steps_[s] = std::move(program_.steps[s]);
      continue;
    }
    const int loops = IsFree(*nest) ? 0 : nest->loops();
    std::optional<LoopNest> widening;
    const std::optional<BufferId> narrow = WidenedBy(*nest);
    if (narrow.has_value() && producers_[*narrow].inlined) widening = *nest;
    LoopNest whole = InlineInto(std::move(*nest));
    InlineVerdict verdict = Judge(whole, s);
    if (widening.has_value() && verdict.because != StayedBecause::kInlined)
      StoreNarrow(*std::move(widening), s, whole, verdict);
    if (verdict.because == StayedBecause::kInlined) {
      const BufferId buffer = whole.stores[0].buffer;
      taken_.insert(std::lower_bound(taken_.begin(), taken_.end(), buffer),
                    buffer);
      producers_[buffer] = {true, std::move(whole), s, loops, taken_};
    } else {
      NoteStayed(whole, s, std::move(verdict));
      steps_[s] = std::move(whole);
    }
  }
  program_.steps.clear();
  for (std::optional<LoopStep>& step : steps_) {
    if (step.has_value()) program_.steps.push_back(*std::move(step));
  }
  std::stable_sort(
      stayed_.begin(), stayed_.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<StayedProducer> stayed;
  for (auto& [step, producer] : stayed_) stayed.push_back(std::move(producer));
  return stayed;
}

}  // namespace

std::vector<StayedProducer> InlineProducers(LoopProgram& program,
                                            const Target& target,
                                            const InlineOptions& options) {
  return Inliner(program, target, options).Run();
}

}  // namespace kiln

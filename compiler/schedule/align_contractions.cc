#include "compiler/schedule/align_contractions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/align_remedies.h"
#include "compiler/schedule/align_ways.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/interleave_rows.h"
#include "compiler/schedule/pad_rows.h"
#include "compiler/schedule/split_contraction.h"

namespace kiln {
namespace {

class Aligner {
 public:
  Aligner(LoopProgram& program, const Target& target,
          const AlignOptions& options)
      : program_(program), target_(target), options_(options) {}

  // Chooses a remedy for each product before the first one with `key`. Returns the step
  // of that one, or the number of steps if no product has the key.
  size_t Decide(const TuningTable& tuning, absl::string_view key = "") {
    remedies_.resize(program_.steps.size());
    for (size_t s = 0; s < remedies_.size(); ++s) {
      auto* c = std::get_if<Contraction>(&program_.steps[s]);
      if (c == nullptr) continue;
      AlignChoice choice =
          DecideAlignment(*c, program_, target_, options_, tuning);
      if (!choice.key.empty() && choice.key == key) return s;
      Record(choice, *c);
      if (choice.remedy.has_value()) SetRemedy(s, *std::move(choice.remedy));
    }
    return remedies_.size();
  }

  void SetRemedy(size_t step, AlignRemedy remedy) {
    remedies_.resize(program_.steps.size());
    PadOperands(std::get<Contraction>(program_.steps[step]), remedy);
    remedies_[step] = std::move(remedy);
    any_ = true;
  }

  // Applies the chosen remedies.
  AlignedCounts Apply() {
    if (!any_) return counts_;
    CountWriters();
    std::vector<LoopStep> steps = std::move(program_.steps);
    program_.steps.clear();
    for (size_t s = 0; s < steps.size(); ++s) {
      if (!remedies_[s].has_value()) {
        program_.steps.push_back(std::move(steps[s]));
        continue;
      }
      ++counts_.products;
      Apply(std::get<Contraction>(std::move(steps[s])), *remedies_[s]);
    }
    return counts_;
  }

 private:
  // Records the decision for the cache, and as text for people.
  void Record(const AlignChoice& choice, Contraction& c) {
    if (choice.key.empty()) return;
    program_.tuned[choice.key] = choice.decision;
    if (!choice.ignored.empty()) {
      c.tuned = absl::StrCat("ignored: ", choice.ignored);
    } else if (!choice.decision.empty()) {
      c.tuned = absl::StrCat("tuned: align ", choice.decision);
    }
  }

  void PadOperands(const Contraction& c, const AlignRemedy& remedy) {
    for (size_t place = 0; place < c.operands.size(); ++place) {
      // The rows are aligned already if an earlier operand has the same buffer.
      const View& view = c.operands[place].view;
      if (remedy.stride[place].has_value() &&
          !HasAlignedRows(view, program_.buffers[view.buffer])) {
        PadRows(program_, view.buffer, *remedy.stride[place]);
        ++counts_.rows;
      }
    }
  }

  void CountWriters() {
    writers_.assign(program_.buffers.size(), 0);
    for (const LoopStep& step : program_.steps)
      VisitStepBuffers(step, [&](BufferId b, bool writes) {
        writers_[b] += writes ? 1 : 0;
      });
  }

  void Apply(Contraction c, const AlignRemedy& remedy) {
    if (remedy.interleaves) {
      const auto sum = static_cast<uint32_t>(c.extents.size() - 1);
      for (size_t place = 0; place < c.operands.size(); ++place) {
        if (remedy.turned[place]) {
          c.operands[place].view =
              CopyOf(c.operands[place], sum, c, remedy.widened);
        }
      }
      AddInterleaved(InterleaveRows(c).value());
      return;
    }
    std::optional<View> result;  // the original view, if the result is copied
    for (size_t place = 0; place < c.operands.size(); ++place) {
      if (!remedy.copied[place]) continue;
      ContractionOperand& operand = c.operands[place];
      if (place == c.written) {
        result = operand.view;
        operand.view = AlignedLike(operand, *RowAxis(operand), remedy.widened);
      } else {
        operand.view = CopyOf(operand, *RowAxis(operand), c, remedy.widened);
      }
    }
    for (size_t axis = 0; axis < c.extents.size(); ++axis)
      if (remedy.widened[axis] > 0) c.extents[axis] = remedy.widened[axis];
    AddParts(c, remedy.peeled);
    if (!result.has_value()) return;
    View from = c.result().view;
    from.sizes = result->sizes;
    AddCopy(from, *result, c);
  }

  // Adds the products as steps, and the copies that put the edges in their places.
  void AddInterleaved(const InterleavedProduct& parts) {
    for (const Contraction& part : parts.aligned)
      program_.steps.push_back(part);
    for (Contraction edge : parts.edges) {
      const View to = edge.result().view;
      edge.result().view =
          AlignedLike(edge.result(), *RowAxis(edge.result()), {});
      const View from = edge.result().view;
      program_.steps.push_back(edge);
      AddCopy(from, to, edge);
    }
  }

  // Adds the product and its peeled parts as steps.
  void AddParts(Contraction c,
                const std::vector<std::optional<int64_t>>& peeled) {
    std::vector<Contraction> small;
    const size_t sum = c.extents.size() - 1;
    for (size_t axis = 0; axis < sum; ++axis) {
      if (!peeled[axis].has_value()) continue;
      auto [large, rest] = SplitResult(c, axis, *peeled[axis]);
      c = std::move(large);
      small.push_back(std::move(rest));
    }
    if (peeled[sum].has_value()) {
      auto [rest, large] = SplitSum(c, *peeled[sum], program_);
      program_.steps.push_back(std::move(rest));
      c = std::move(large);
    }
    program_.steps.push_back(std::move(c));
    for (Contraction& part : small) program_.steps.push_back(std::move(part));
  }

  // A new temporary for the operand, with aligned rows along the axis `row`. Axes in
  // `widened` get those sizes.
  View AlignedLike(ContractionOperand operand, uint32_t row,
                   const std::vector<int64_t>& widened) {
    for (size_t d = 0; d < operand.view.sizes.size(); ++d)
      if (const int64_t size = Widened(operand.index[d], widened); size > 0)
        operand.view.sizes[d] = size;
    LayOutRows(operand, row);
    View view = std::move(operand.view);
    Buffer buffer;
    buffer.name = absl::StrCat("buf", program_.buffers.size());
    buffer.dtype = view.dtype;
    buffer.sizes = view.sizes;
    buffer.strides = view.strides;
    view.buffer = static_cast<BufferId>(program_.buffers.size());
    program_.buffers.push_back(std::move(buffer));
    return view;
  }

  // The size that the axis of an index is widened to; 0 if it is not widened.
  static int64_t Widened(const SymExpr& index,
                         const std::vector<int64_t>& widened) {
    Var axis;
    return index.AsVar(&axis) && axis.index < widened.size()
               ? widened[axis.index]
               : 0;
  }

  // A copy of the operand with aligned rows along the axis `row`. Products that read the
  // same elements share a copy, also if one of them reads it transposed: a gradient is
  // read both ways.
  View CopyOf(const ContractionOperand& operand, uint32_t row,
              const Contraction& c, const std::vector<int64_t>& widened) {
    const View& view = operand.view;
    std::vector<size_t> order(view.sizes.size());  // the widest stride first
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return program_.shapes.Hint(view.strides[a]) >
             program_.shapes.Hint(view.strides[b]);
    });
    ContractionOperand ordered = operand;
    std::string key = absl::StrCat(view.buffer, "+", view.offset.ToString());
    for (size_t i = 0; i < order.size(); ++i) {
      ordered.view.sizes[i] = view.sizes[order[i]];
      ordered.view.strides[i] = view.strides[order[i]];
      ordered.index[i] = operand.index[order[i]];
      absl::StrAppend(&key, ",", ordered.view.sizes[i].ToString(), "*",
                      ordered.view.strides[i].ToString(), "/",
                      Widened(ordered.index[i], widened),
                      ordered.index[i] == SymExpr::Axis(row) ? " row" : "");
    }
    const bool stays =
        writers_[view.buffer] <=
        (program_.buffers[view.buffer].kind == BufferKind::kInput ? 0 : 1);
    View copy;
    if (const auto known = copies_.find(key); stays && known != copies_.end()) {
      copy = known->second;
    } else {
      copy = AlignedLike(ordered, row, widened);
      View narrow = copy;
      narrow.sizes = ordered.view.sizes;
      AddCopy(ordered.view, narrow, c);
      const auto sum = static_cast<uint32_t>(c.extents.size() - 1);
      for (size_t d = 0; d < copy.sizes.size(); ++d)
        if (ordered.index[d] == SymExpr::Axis(sum) && widened[sum] > 0)
          AddZeros(copy, d, narrow.sizes[d], c);
      copies_.insert_or_assign(std::move(key), copy);
    }
    View result = copy;
    for (size_t i = 0; i < order.size(); ++i) {
      result.sizes[order[i]] = copy.sizes[i];
      result.strides[order[i]] = copy.strides[i];
    }
    return result;
  }

  // Adds a nest that copies `from` to `to`. It counts as part of `c` for people.
  void AddCopy(const View& from, const View& to, const Contraction& c) {
    LoopNest nest;
    DimVector extents;
    AxesOver(from, extents);
    for (const SymExpr& extent : extents) nest.axes.push_back({extent, false});
    BodyBuilder body;
    const ScalarId value =
        body.Load(from.buffer, from.dtype, PlaceOf(from, program_).value());
    nest.stores.push_back({to.buffer, PlaceOf(to, program_).value(), value});
    nest.body = body.Take();
    nest.origins = {"pad"};
    nest.client_nodes = c.client_nodes;
    program_.steps.push_back(
        SplitAtDivisions(std::move(nest), program_.shapes));
  }

  // Adds a nest that zeroes the temporary `to` from index `first` of `dim` to the end.
  void AddZeros(const View& to, size_t dim, const SymExpr& first,
                const Contraction& c) {
    View rest = to;
    rest.sizes[dim] = to.sizes[dim] - first;
    LoopNest nest;
    DimVector extents;
    DimVector at = AxesOver(rest, extents);
    at[dim] += first;
    for (const SymExpr& extent : extents) nest.axes.push_back({extent, false});
    BodyBuilder body;
    nest.stores.push_back(
        {to.buffer, at,
         body.Cast(to.dtype, body.Float(ComputeType(to.dtype), 0))});
    nest.body = body.Take();
    nest.origins = {"pad"};
    nest.client_nodes = c.client_nodes;
    program_.steps.push_back(std::move(nest));
  }

  LoopProgram& program_;
  const Target& target_;
  const AlignOptions options_;
  std::vector<std::optional<AlignRemedy>> remedies_;  // by step
  bool any_ = false;
  AlignedCounts counts_;
  std::vector<int> writers_;
  std::map<std::string, View> copies_;
};

}  // namespace

AlignOptions AlignOptionsOf(const ArtifactOptions& options) {
  return {.longer_rows = options.comprehensive_padding,
          .copies = options.shape_padding && !options.force_shape_pad};
}

AlignedCounts AlignContractions(LoopProgram& program, const Target& target,
                                const AlignOptions& options,
                                const TuningTable& tuning) {
  if (target.kind != TargetKind::kCuda) return {};
  Aligner aligner(program, target, options);
  aligner.Decide(tuning);
  return aligner.Apply();
}

std::vector<StepAlone> AlignedWays(LoopProgram program, const Target& target,
                                   const AlignOptions& options,
                                   const TuningTable& tuning,
                                   absl::string_view key) {
  if (target.kind != TargetKind::kCuda || key.empty()) return {};
  const size_t step = Aligner(program, target, options).Decide(tuning, key);
  if (step == program.steps.size()) return {};
  std::vector<StepAlone> alone;
  for (AlignWay& way : AlignWaysOf(std::get<Contraction>(program.steps[step]),
                                   program, target, options)) {
    alone.push_back({way.name, Alone(program, program.steps[step])});
    if (!way.remedy.has_value()) continue;
    Aligner aligner(alone.back().program, target, options);
    aligner.SetRemedy(0, *std::move(way.remedy));
    aligner.Apply();
  }
  return alone;
}

}  // namespace kiln

#include "compiler/schedule/align_contractions.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/choose_contraction.h"
#include "compiler/schedule/contraction_loops.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/interleave_rows.h"
#include "compiler/schedule/pad_rows.h"
#include "compiler/schedule/split_contraction.h"

namespace kiln {
namespace {

// Estimates, of products of 8192 x 768 with 50,257 columns of bf16 on an H200 (in
// ms: forward 0.96 aligned, 6.6 else; gradients 0.8 and 4.3 to 4.5).
constexpr double kOfPeak = 0.7;         // that an aligned product reaches
constexpr double kSlowerUnaligned = 6;  // one that is not
constexpr double kLaunchNs = 4000;
constexpr double kWorthIt = 0.9;
// Below it the part of a sum that is rounded by itself may be seen in the result.
constexpr int64_t kLeastSum = 512;

// Products a cycle and multiprocessor of tensor cores, of half types.
double ProductsPerCycle(const Target& target) {
  if (target.compute_capability >= 90) return 2048;
  return target.compute_capability == 80 ? 1024 : 512;
}

// The axis that neighbours of the view lie along; none where there are none.
std::optional<uint32_t> RowAxis(const ContractionOperand& operand) {
  for (size_t d = operand.index.size(); d-- > 0;) {
    Var axis;
    if (operand.view.strides[d].Is(1) && !operand.view.sizes[d].Is(1) &&
        operand.index[d].AsVar(&axis)) {
      return axis.index;
    }
  }
  return std::nullopt;
}

bool HasKnownStrides(const View& view) {
  return std::all_of(view.strides.begin(), view.strides.end(),
                     [](const SymExpr& e) { return e.is_constant(); });
}

bool HasAlignedRows(const View& view, const Buffer& buffer) {
  const int64_t step = RowAlignment(view.dtype);
  const auto fits = [&](const SymExpr& e) {
    return e.is_constant() && e.constant() % step == 0;
  };
  if (!fits(view.offset) || !fits(buffer.offset) ||
      buffer.alignment_bytes % 16 != 0) {
    return false;
  }
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (!view.strides[d].Is(1) && !view.sizes[d].Is(1) &&
        !fits(view.strides[d]))
      return false;
  }
  return true;
}

// What one product needs.
struct Remedy {
  std::array<std::optional<int64_t>, 3> stride;  // of the operand's buffer
  std::array<bool, 3> copied = {};
  // By axis: where the part that is peeled begins.
  std::vector<std::optional<int64_t>> peeled;
  // Instead of all of these.
  std::optional<InterleavedProduct> interleaved;
};

class Aligner {
 public:
  Aligner(LoopProgram& program, const Target& target,
          const AlignOptions& options)
      : program_(program), target_(target), options_(options) {}

  AlignedCounts Run() {
    std::vector<std::optional<Remedy>> remedies(program_.steps.size());
    bool any = false;
    for (size_t s = 0; s < remedies.size(); ++s) {
      const auto* c = std::get_if<Contraction>(&program_.steps[s]);
      if (c == nullptr || !IsEligible(*c)) continue;
      remedies[s] = RemedyOf(*c);
      if (!remedies[s].has_value()) continue;
      any = true;
      PadOperands(*c, *remedies[s]);
    }
    if (!any) return counts_;
    CountWriters();
    std::vector<LoopStep> steps = std::move(program_.steps);
    program_.steps.clear();
    for (size_t s = 0; s < steps.size(); ++s) {
      if (!remedies[s].has_value()) {
        program_.steps.push_back(std::move(steps[s]));
        continue;
      }
      ++counts_.products;
      Apply(std::get<Contraction>(std::move(steps[s])), *remedies[s]);
    }
    return counts_;
  }

 private:
  bool IsEligible(const Contraction& c) const {
    const DType dtype = c.result().view.dtype;
    if (c.form != Contraction::Form::kProduct ||
        !(IsHalf(dtype) || (dtype == DType::kFloat32 && c.allow_tf32))) {
      return false;
    }
    for (const SymExpr& e : c.extents)
      if (program_.shapes.Hint(e) == 0) return false;
    return ChooseContraction(c, program_.buffers, program_.shapes, target_)
               .by == ComputedBy::kLibrary;
  }

  double ProductsOf(const Contraction& c) const {
    double products = 1;
    for (const SymExpr& e : c.extents)
      products *= static_cast<double>(program_.shapes.Hint(e));
    return products;
  }

  double BytesOf(const View& view) const {
    return static_cast<double>(program_.shapes.Hint(Product(view.sizes))) *
           SizeInBytes(view.dtype);
  }

  double TimeOf(const Contraction& c, double slower) const {
    double per_ns = ProductsPerCycle(target_) * target_.multiprocessors *
                    target_.cycles_per_ns * kOfPeak;
    if (c.result().view.dtype == DType::kFloat32) per_ns /= 2;
    double bytes = 0;
    for (const ContractionOperand& operand : c.operands)
      bytes += BytesOf(operand.view);
    return std::max(ProductsOf(c) / per_ns * slower,
                    bytes / target_.memory_bytes_per_ns);
  }
  double TimeToMove(double bytes) const {
    return kLaunchNs + bytes / target_.memory_bytes_per_ns;
  }

  // None where the product is aligned, or better as it is.
  std::optional<Remedy> RemedyOf(const Contraction& c) const {
    Remedy remedy;
    double costs = 0;
    bool due = false;
    for (size_t place = 0; place < c.operands.size(); ++place) {
      const View& view = c.operands[place].view;
      if (!RowAxis(c.operands[place]).has_value() || !HasKnownStrides(view))
        return std::nullopt;
      if (HasAlignedRows(view, program_.buffers[view.buffer])) continue;
      due = true;
      remedy.stride[place] = LongerRows(view);
      if (remedy.stride[place].has_value()) continue;
      if (!options_.copies || !PlaceOf(view).has_value()) return std::nullopt;
      remedy.copied[place] = true;
      costs += TimeToMove(2 * BytesOf(view));
    }
    if (!PeelAxes(c, remedy, costs, due) || !due) return std::nullopt;
    Interleave(c, remedy, costs);
    if (TimeOf(c, 1) + costs > kWorthIt * TimeOf(c, kSlowerUnaligned))
      return std::nullopt;
    return remedy;
  }

  // Takes another way where the result alone is to be copied, and that way costs less.
  void Interleave(const Contraction& c, Remedy& remedy, double& costs) const {
    for (size_t place = 0; place < c.operands.size(); ++place) {
      if (remedy.copied[place] != (place == c.written) ||
          remedy.stride[place].has_value()) {
        return;
      }
    }
    std::optional<InterleavedProduct> parts = InterleaveRows(c);
    if (!parts.has_value()) return;
    double more = -TimeOf(c, 1);
    for (const Contraction& part : parts->aligned) {
      if (!IsAligned(part)) return;
      more += TimeOf(part, 1) + kLaunchNs;
    }
    for (const Contraction& edge : parts->edges) {
      if (!PlaceOf(edge.result().view).has_value()) return;
      more += TimeOf(edge, 1) + kLaunchNs +
              TimeToMove(2 * BytesOf(edge.result().view));
    }
    if (more >= costs) return;
    remedy = Remedy();
    remedy.peeled.resize(c.extents.size());
    remedy.interleaved = std::move(parts);
    costs = more;
  }

  bool IsAligned(const Contraction& c) const {
    return std::all_of(
        c.operands.begin(), c.operands.end(),
        [&](const ContractionOperand& operand) {
          const std::optional<uint32_t> row = RowAxis(operand);
          return row.has_value() && c.extents[*row].is_constant() &&
                 c.extents[*row].constant() %
                         RowAlignment(operand.view.dtype) ==
                     0 &&
                 HasAlignedRows(operand.view,
                                program_.buffers[operand.view.buffer]);
        });
  }

  // The stride that aligns the view by its buffer's rows alone.
  std::optional<int64_t> LongerRows(const View& view) const {
    if (!options_.longer_rows) return std::nullopt;
    const std::optional<int64_t> stride = StrideForRows(program_, view.buffer);
    if (!stride.has_value()) return std::nullopt;
    const Buffer& buffer = program_.buffers[view.buffer];
    const std::optional<View> padded = OnPaddedRows(view, buffer, *stride);
    if (!padded.has_value() || !HasAlignedRows(*padded, buffer))
      return std::nullopt;
    return stride;
  }

  // False where a size is not known or not even one vector, or a sum too short.
  bool PeelAxes(const Contraction& c, Remedy& remedy, double& costs,
                bool& due) const {
    const int64_t step = RowAlignment(c.result().view.dtype);
    remedy.peeled.resize(c.extents.size());
    const size_t sum = c.extents.size() - 1;
    for (const ContractionOperand& operand : c.operands) {
      const uint32_t axis = *RowAxis(operand);
      if (!c.extents[axis].is_constant()) return false;
      const int64_t extent = c.extents[axis].constant();
      const int64_t at = extent / step * step;
      if (at == extent || remedy.peeled[axis].has_value()) continue;
      if (!options_.copies || axis + 3 < c.extents.size() || at == 0)
        return false;
      if (axis == sum && (extent < kLeastSum || !TakesMore(c))) return false;
      due = true;
      remedy.peeled[axis] = at;
      costs += TimeOfPeeled(c, axis, extent - at);
    }
    return true;
  }

  double TimeOfPeeled(const Contraction& c, size_t axis, int64_t rest) const {
    double bytes = 0;  // of what does not get smaller
    for (const ContractionOperand& operand : c.operands) {
      bool along = false;
      for (const SymExpr& e : operand.index)
        along |= e == SymExpr::Axis(static_cast<uint32_t>(axis));
      if (!along) bytes += BytesOf(operand.view);
    }
    if (axis + 1 == c.extents.size()) bytes *= 2;  // written, then read
    Contraction peeled = c;
    peeled.extents[axis] = rest;
    const double slow = rest > 1 ? TimeOf(peeled, kSlowerUnaligned) : 0;
    return std::max(slow, TimeToMove(bytes));
  }

  // Whether a library that computes it can add a matrix.
  bool TakesMore(const Contraction& c) const {
    for (const ScalarNode& node : c.body)
      if (node.op == ScalarOp::kLoad || node.op == ScalarOp::kConstant)
        return false;
    return true;
  }

  void PadOperands(const Contraction& c, const Remedy& remedy) {
    for (size_t place = 0; place < c.operands.size(); ++place) {
      // An operand before may have the same buffer.
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

  void Apply(Contraction c, const Remedy& remedy) {
    if (remedy.interleaved.has_value()) {
      AddInterleaved(*remedy.interleaved);
      return;
    }
    std::optional<View> result;  // as it was
    for (size_t place = 0; place < c.operands.size(); ++place) {
      if (!remedy.copied[place]) continue;
      ContractionOperand& operand = c.operands[place];
      if (place == c.written) {
        result = operand.view;
        operand.view = AlignedLike(operand);
      } else {
        operand.view = CopyOf(operand, c);
      }
    }
    AddParts(c, remedy.peeled);
    if (result.has_value()) AddCopy(c.result().view, *result, c);
  }

  // Pushes the products, and the copies of edges to their places.
  void AddInterleaved(const InterleavedProduct& parts) {
    for (const Contraction& part : parts.aligned)
      program_.steps.push_back(part);
    for (Contraction edge : parts.edges) {
      const View due = edge.result().view;
      edge.result().view = AlignedLike(edge.result());
      const View from = edge.result().view;
      program_.steps.push_back(edge);
      AddCopy(from, due, edge);
    }
  }

  // Pushes the product, its peeled parts beside it.
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

  // A new temporary with aligned rows for the operand, which lie as its own do.
  View AlignedLike(const ContractionOperand& operand) {
    View view = operand.view;
    const uint32_t row = *RowAxis(operand);
    SymExpr stride = 1;
    for (const bool is_row : {true, false}) {
      for (size_t d = view.sizes.size(); d-- > 0;) {
        if ((operand.index[d] == SymExpr::Axis(row)) != is_row) continue;
        const SymExpr& size = view.sizes[d];
        view.strides[d] = stride;
        stride =
            is_row ? PaddedStride(size.constant(), view.dtype) : stride * size;
      }
    }
    view.offset = 0;
    Buffer buffer;
    buffer.name = absl::StrCat("buf", program_.buffers.size());
    buffer.dtype = view.dtype;
    buffer.sizes = view.sizes;
    buffer.strides = view.strides;
    view.buffer = static_cast<BufferId>(program_.buffers.size());
    program_.buffers.push_back(std::move(buffer));
    return view;
  }

  // The operand's view with aligned rows. Products that read the same elements, as
  // they are or transposed, share a copy: a gradient is read both ways.
  View CopyOf(const ContractionOperand& operand, const Contraction& c) {
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
                      ordered.view.strides[i].ToString());
    }
    const bool stays =
        writers_[view.buffer] <=
        (program_.buffers[view.buffer].kind == BufferKind::kInput ? 0 : 1);
    View copy;
    if (const auto known = copies_.find(key); stays && known != copies_.end()) {
      copy = known->second;
    } else {
      copy = AlignedLike(ordered);
      AddCopy(ordered.view, copy, c);
      copies_.insert_or_assign(std::move(key), copy);
    }
    View result = copy;
    for (size_t i = 0; i < order.size(); ++i) {
      result.sizes[order[i]] = copy.sizes[i];
      result.strides[order[i]] = copy.strides[i];
    }
    return result;
  }

  // The axes of a nest over the view: one for each dimension of more than a point.
  static DimVector AxesOver(const View& view, DimVector& extents) {
    DimVector at;
    for (const SymExpr& size : view.sizes) {
      at.push_back(size.Is(1)
                       ? SymExpr(0)
                       : SymExpr::Axis(static_cast<uint32_t>(extents.size())));
      if (!size.Is(1)) extents.push_back(size);
    }
    return at;
  }

  // Where in its buffer each point of the view lies.
  std::optional<DimVector> PlaceOf(const View& view) const {
    DimVector extents;
    const DimVector at = AxesOver(view, extents);
    SymExpr address = view.offset;
    for (size_t d = 0; d < at.size(); ++d) address += at[d] * view.strides[d];
    return IndexAt(address, program_.buffers[view.buffer], extents,
                   program_.shapes);
  }

  // Pushes a nest that copies `from`, for whom `c` is computed.
  void AddCopy(const View& from, const View& to, const Contraction& c) {
    LoopNest nest;
    DimVector extents;
    AxesOver(from, extents);
    for (const SymExpr& extent : extents) nest.axes.push_back({extent, false});
    BodyBuilder body;
    const ScalarId value =
        body.Load(from.buffer, from.dtype, PlaceOf(from).value());
    nest.stores.push_back({to.buffer, PlaceOf(to).value(), value});
    nest.body = body.Take();
    nest.origins = {"pad"};
    nest.client_nodes = c.client_nodes;
    program_.steps.push_back(
        SplitAtDivisions(std::move(nest), program_.shapes));
  }

  LoopProgram& program_;
  const Target& target_;
  const AlignOptions options_;
  AlignedCounts counts_;
  std::vector<int> writers_;
  std::map<std::string, View> copies_;
};

}  // namespace

AlignedCounts AlignContractions(LoopProgram& program, const Target& target,
                                const AlignOptions& options) {
  if (target.kind != TargetKind::kCuda) return {};
  return Aligner(program, target, options).Run();
}

}  // namespace kiln

#include "compiler/schedule/align_remedies.h"

#include <algorithm>
#include <utility>

#include "compiler/loop/index_expr.h"
#include "compiler/schedule/choose_contraction.h"
#include "compiler/schedule/contraction_loops.h"
#include "compiler/schedule/hint_bytes.h"
#include "compiler/schedule/interleave_rows.h"
#include "compiler/schedule/pad_rows.h"
#include "compiler/schedule/split_contraction.h"

namespace kiln {
namespace {

// Source: products of 8192 x 768 with 50,257 columns of bf16 on an H200. Forward took
// 0.96 ms aligned and 6.6 ms otherwise, the gradients 0.8 ms and 4.3 to 4.5 ms.
constexpr double kPeakFraction = 0.7;     // of an aligned product
constexpr double kUnalignedSlowdown = 6;  // of an unaligned product
// An unaligned kernel moves an element at a time: half types take so many times as long
// as memory. Source: on an H200 products of bf16 took 4.2 (4096 x 4097 x 32, 30 us) to 5.7
// times (4096 x 4097 x 64, 41 us); 64 of 1024 x 1021 x 64 took 148 us.
constexpr double kUnalignedBytesSlowdown = 5;
// Of the memory's speed, that of a copy to or from odd rows. Source: on an H200, 37 us for
// a result of 8192 x 4093 in bf16.
constexpr double kCopyFraction = 0.76;
constexpr double kWorthwhileFraction = 0.9;
// Of each step that a remedy adds, beside its work: a copy or a library's product. An
// estimate, above the launch of a kernel of ours (kLaunchNs in nest_price.h).
constexpr double kAddedStepNs = 4000;
// An estimate, of zeros behind a factor's rows or columns.
constexpr double kZerosNs = 2000;
// In shorter sums the rounding of the part that is summed separately may show in the
// result.
constexpr int64_t kLeastPeeledSum = 512;

// Multiplications of half types by the tensor cores of a multiprocessor, per cycle.
double ProductsPerCycle(const Target& target) {
  if (target.compute_capability >= 90) return 2048;
  return target.compute_capability == 80 ? 1024 : 512;
}

bool HasKnownStrides(const View& view) {
  return std::all_of(view.strides.begin(), view.strides.end(),
                     [](const SymExpr& e) { return e.is_constant(); });
}

class RemedyFinder {
 public:
  RemedyFinder(const LoopProgram& program, const Target& target,
               const AlignOptions& options)
      : program_(program), target_(target), options_(options) {}

  bool IsEligible(const Contraction& c) const {
    const DType dtype = c.result().view.dtype;
    if (c.form != Contraction::Form::kProduct ||
        !(IsHalf(dtype) || (dtype == DType::kFloat32 && c.allow_tf32))) {
      return false;
    }
    for (const SymExpr& e : c.extents)
      if (program_.shapes.Hint(e) == 0) return false;
    // The options that ChooseContraction reads do not matter for products.
    return ChooseContraction(c, program_.buffers, program_.shapes, target_, {})
               .by == ComputedBy::kLibrary;
  }

  // All remedies, whatever they cost. Empty if the product is aligned.
  std::vector<AlignRemedy> All(const Contraction& c) const {
    std::vector<AlignRemedy> all;
    for (const Odd odd : {Odd::kPeeled, Odd::kWidened, Odd::kCheaper}) {
      if (odd != Odd::kPeeled && !options_.widens) continue;
      const std::optional<AlignRemedy> found = Find(c, odd);
      if (!found.has_value()) continue;
      all.push_back(*found);
      std::optional<AlignRemedy> parts = Interleaved(c, *found);
      if (parts.has_value()) all.push_back(*std::move(parts));
    }
    return all;
  }

  // The cheaper of two remedies, with padded copies and without. None if the product is
  // aligned, or if no remedy saves enough.
  std::optional<AlignRemedy> Find(const Contraction& c) const {
    std::optional<AlignRemedy> peeled = Worthwhile(c, Odd::kPeeled);
    if (!options_.widens) return peeled;
    std::optional<AlignRemedy> widened = Worthwhile(c, Odd::kCheaper);
    const bool take = widened.has_value() &&
                      (!peeled.has_value() || widened->costs < peeled->costs);
    return take ? std::move(widened) : std::move(peeled);
  }

 private:
  // What is done about a size that is not a whole number of vectors.
  enum class Odd : uint8_t { kPeeled, kWidened, kCheaper };

  double ProductsOf(const Contraction& c) const {
    double products = 1;
    for (const SymExpr& e : c.extents)
      products *= static_cast<double>(program_.shapes.Hint(e));
    return products;
  }

  double BytesOf(const View& view) const {
    return static_cast<double>(HintBytes(view, program_.shapes));
  }

  double TimeToCompute(const Contraction& c) const {
    const double per_ns = ProductsPerCycle(target_) * target_.multiprocessors *
                          target_.cycles_per_ns * kPeakFraction;
    const bool wide = c.result().view.dtype == DType::kFloat32;
    return ProductsOf(c) / per_ns * (wide ? 2 : 1);
  }
  double TimeOfOperands(const Contraction& c) const {
    double bytes = 0;
    for (const ContractionOperand& operand : c.operands)
      bytes += BytesOf(operand.view);
    return bytes / target_.memory_bytes_per_ns;
  }
  double TimeOf(const Contraction& c) const {
    return std::max(TimeToCompute(c), TimeOfOperands(c));
  }
  double TimeUnaligned(const Contraction& c) const {
    const double moves = TimeOfOperands(c) * kUnalignedBytesSlowdown;
    return std::max(TimeToCompute(c) * kUnalignedSlowdown,
                    IsHalf(c.result().view.dtype) ? moves : moves / 2);
  }
  double TimeToMove(double bytes) const {
    return kAddedStepNs + bytes / (kCopyFraction * target_.memory_bytes_per_ns);
  }

  std::optional<AlignRemedy> Worthwhile(const Contraction& c, Odd odd) const {
    std::optional<AlignRemedy> remedy = Find(c, odd);
    if (!remedy.has_value()) return std::nullopt;
    std::optional<AlignRemedy> parts = Interleaved(c, *remedy);
    if (parts.has_value() && parts->costs < remedy->costs)
      remedy = std::move(parts);
    if (TimeOf(c) + remedy->costs > kWorthwhileFraction * TimeUnaligned(c))
      return std::nullopt;
    return remedy;
  }

  std::optional<AlignRemedy> Find(const Contraction& c, Odd odd) const {
    AlignRemedy remedy;
    double& costs = remedy.costs;
    bool unaligned = false;
    for (size_t place = 0; place < c.operands.size(); ++place) {
      const View& view = c.operands[place].view;
      if (!RowAxis(c.operands[place]).has_value() || !HasKnownStrides(view))
        return std::nullopt;
      if (HasAlignedRows(view, program_.buffers[view.buffer])) continue;
      unaligned = true;
      remedy.stride[place] = LongerRows(view);
      if (remedy.stride[place].has_value()) continue;
      if (!options_.copies || !PlaceOf(view, program_).has_value())
        return std::nullopt;
      remedy.copied[place] = true;
      costs += TimeToMove(2 * BytesOf(view));
    }
    if (!PeelAxes(c, odd, remedy, unaligned) || !unaligned) return std::nullopt;
    return remedy;
  }

  // The remedy of interleave_rows.h, if `remedy` would copy the result. Each of its
  // products computes other columns, so rows of factors along the columns would begin at
  // any alignment. Such a factor is copied with rows along the sum.
  std::optional<AlignRemedy> Interleaved(const Contraction& c,
                                         const AlignRemedy& remedy) const {
    const auto sum = static_cast<uint32_t>(c.extents.size() - 1);
    AlignRemedy out;
    Contraction turned = c;
    out.costs = -TimeOf(c);
    for (size_t place = 0; place < c.operands.size(); ++place) {
      if (remedy.stride[place].has_value()) return std::nullopt;
      if (place == c.written) {
        if (!remedy.copied[place]) return std::nullopt;
        continue;
      }
      const ContractionOperand& factor = c.operands[place];
      if (RowAxis(factor) == sum) {
        if (remedy.copied[place]) return std::nullopt;
        continue;
      }
      if (!c.extents[sum].is_constant() ||
          !PlaceOf(factor.view, program_).has_value()) {
        return std::nullopt;
      }
      out.turned[place] = true;
      out.costs += TimeToMove(2 * BytesOf(factor.view));
      LayOutRows(turned.operands[place], sum);
    }
    const std::optional<InterleavedProduct> parts = InterleaveRows(turned);
    if (!parts.has_value()) return std::nullopt;
    for (const Contraction& part : parts->aligned) {
      if (!IsAligned(part, out.turned)) return std::nullopt;
      out.costs += TimeOf(part) + kAddedStepNs;
    }
    for (const Contraction& edge : parts->edges) {
      if (!PlaceOf(edge.result().view, program_).has_value())
        return std::nullopt;
      out.costs += TimeOf(edge) + kAddedStepNs +
                   TimeToMove(2 * BytesOf(edge.result().view));
    }
    out.peeled.resize(c.extents.size());
    out.widened.resize(c.extents.size());
    out.interleaves = true;
    return out;
  }

  // `copied` has the operands whose views are those of copies that are not made yet.
  bool IsAligned(const Contraction& c,
                 const std::array<bool, 3>& copied) const {
    for (size_t place = 0; place < c.operands.size(); ++place) {
      const ContractionOperand& operand = c.operands[place];
      const std::optional<uint32_t> row = RowAxis(operand);
      if (!row.has_value() || !c.extents[*row].is_constant() ||
          c.extents[*row].constant() % RowAlignment(operand.view.dtype) != 0) {
        return false;
      }
      if (!copied[place] &&
          !HasAlignedRows(operand.view,
                          program_.buffers[operand.view.buffer])) {
        return false;
      }
    }
    return true;
  }

  // The stride of the buffer's rows that aligns the view without a copy.
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

  // Peels or widens each odd size, and sets `unaligned` if there is one. Returns false
  // if a size is unknown or shorter than a vector, or if a sum is too short to be peeled
  // and cannot be widened.
  bool PeelAxes(const Contraction& c, Odd odd, AlignRemedy& remedy,
                bool& unaligned) const {
    const int64_t step = RowAlignment(c.result().view.dtype);
    remedy.peeled.resize(c.extents.size());
    remedy.widened.resize(c.extents.size());
    const size_t sum = c.extents.size() - 1;
    for (const ContractionOperand& operand : c.operands) {
      const uint32_t axis = *RowAxis(operand);
      if (!c.extents[axis].is_constant()) return false;
      const int64_t extent = c.extents[axis].constant();
      const int64_t at = extent / step * step;
      if (at == extent || remedy.peeled[axis].has_value() ||
          remedy.widened[axis] > 0) {
        continue;
      }
      if (!options_.copies || axis + 3 < c.extents.size() || at == 0)
        return false;
      const bool peels =
          axis != sum || (extent >= kLeastPeeledSum && CanAddMatrix(c));
      const double peeled = TimeOfPeeled(c, axis, extent - at);
      const std::optional<double> widened =
          odd != Odd::kPeeled ? TimeToWiden(c, axis, remedy) : std::nullopt;
      if (!peels && !widened.has_value()) return false;
      unaligned = true;
      if (widened.has_value() &&
          (!peels || odd == Odd::kWidened || *widened < peeled)) {
        remedy.widened[axis] = at + step;
        for (size_t place = 0; place < c.operands.size(); ++place)
          remedy.copied[place] |= IsAlong(c.operands[place], axis);
        remedy.costs += *widened;
      } else {
        remedy.peeled[axis] = at;
        remedy.costs += peeled;
      }
    }
    return true;
  }

  static bool IsAlong(const ContractionOperand& operand, uint32_t axis) {
    return std::find(operand.index.begin(), operand.index.end(),
                     SymExpr::Axis(axis)) != operand.index.end();
  }

  // The time for the copies that widening `axis` adds to those of `remedy`. None if an
  // operand cannot be copied, or if the body reads something along the axis.
  std::optional<double> TimeToWiden(const Contraction& c, uint32_t axis,
                                    const AlignRemedy& remedy) const {
    const bool sums = axis + 1 == c.extents.size();
    if (!sums && Loads(c)) return std::nullopt;
    double costs = sums ? 2 * kZerosNs : 0;  // in both factors
    for (size_t place = 0; place < c.operands.size(); ++place) {
      const ContractionOperand& operand = c.operands[place];
      if (!IsAlong(operand, axis)) continue;
      if (remedy.stride[place].has_value()) return std::nullopt;
      if (remedy.copied[place]) continue;
      if (!PlaceOf(operand.view, program_).has_value()) return std::nullopt;
      costs += TimeToMove(2 * BytesOf(operand.view));
    }
    return costs;
  }

  double TimeOfPeeled(const Contraction& c, size_t axis, int64_t rest) const {
    double bytes = 0;  // of operands without the axis, which do not shrink
    for (const ContractionOperand& operand : c.operands) {
      if (!IsAlong(operand, static_cast<uint32_t>(axis)))
        bytes += BytesOf(operand.view);
    }
    if (axis + 1 == c.extents.size()) bytes *= 2;  // written, then read
    const Contraction peeled = PartOf(c, axis, {.count = rest});
    return TimeToMove(bytes) + (rest > 1 ? TimeUnaligned(peeled) : 0);
  }

  // Whether the library can add a matrix to the product: it has no other epilogue.
  bool CanAddMatrix(const Contraction& c) const {
    for (const ScalarNode& node : c.body)
      if (node.op == ScalarOp::kLoad || node.op == ScalarOp::kConstant)
        return false;
    return true;
  }

  static bool Loads(const Contraction& c) {
    return std::any_of(
        c.body.begin(), c.body.end(),
        [](const ScalarNode& node) { return node.op == ScalarOp::kLoad; });
  }

  const LoopProgram& program_;
  const Target& target_;
  const AlignOptions& options_;
};

}  // namespace

std::optional<AlignRemedy> RemedyOf(const Contraction& contraction,
                                    const LoopProgram& program,
                                    const Target& target,
                                    const AlignOptions& options) {
  const RemedyFinder finder(program, target, options);
  if (!finder.IsEligible(contraction)) return std::nullopt;
  return finder.Find(contraction);
}

std::vector<AlignRemedy> RemediesOf(const Contraction& contraction,
                                    const LoopProgram& program,
                                    const Target& target,
                                    const AlignOptions& options) {
  const RemedyFinder finder(program, target, options);
  if (!finder.IsEligible(contraction)) return {};
  return finder.All(contraction);
}

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

void LayOutRows(ContractionOperand& operand, uint32_t row) {
  View& view = operand.view;
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
}

DimVector AxesOver(const View& view, DimVector& extents) {
  DimVector at;
  for (const SymExpr& size : view.sizes) {
    at.push_back(size.Is(1)
                     ? SymExpr(0)
                     : SymExpr::Axis(static_cast<uint32_t>(extents.size())));
    if (!size.Is(1)) extents.push_back(size);
  }
  return at;
}

std::optional<DimVector> PlaceOf(const View& view, const LoopProgram& program) {
  DimVector extents;
  const DimVector at = AxesOver(view, extents);
  return IndexAt(view.offset + ElementAt(at, view.strides),
                 program.buffers[view.buffer], extents, program.shapes);
}

}  // namespace kiln

#include "compiler/loop/value_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "compiler/loop/loop_transforms.h"
#include "compiler/sym/sym_simplify.h"

namespace kiln {
namespace {

constexpr double kExact = int64_t{1}
                          << 53;     // a double holds all integers up to this
constexpr double kLargest = 1e30;    // larger floats count as unbounded
constexpr double kSmallest = 1e-30;  // smaller results may be flushed to 0
constexpr double kRounding = 1e-6;  // more than the rounding error of a float32

// The bounds of the type.
ValueBounds AnyOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kUInt8:
      return {0, 255};
    case DType::kInt8:
      return {-128, 127};
    case DType::kInt16:
      return {-32768, 32767};
    case DType::kInt32:
      return {-2147483648.0, 2147483647.0};
    case DType::kInt64:
      return {};
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return {.number = false};
  }
  return {.number = false};
}

bool IsFinite(const ValueBounds& b) {
  return b.number && std::isfinite(b.min) && std::isfinite(b.max);
}

// The bounds of an integer result, given those of the exact result: if these are beyond
// the type, it may wrap around to any value.
ValueBounds Integer(DType dtype, ValueBounds exact) {
  const ValueBounds any = AnyOf(dtype);
  const double least = std::max(any.min, -kExact);
  const double most = std::min(any.max, kExact);
  return exact.Within(least, most) ? exact : any;
}

// The bounds of a float result, given those of the exact result.
ValueBounds Rounded(DType dtype, ValueBounds exact) {
  if (IsHalf(dtype) || !exact.Within(-kLargest, kLargest)) return AnyOf(dtype);
  exact.min -= kRounding * std::abs(exact.min);
  exact.max += kRounding * std::abs(exact.max);
  if (exact.min > 0 && exact.min < kSmallest) exact.min = 0;
  if (exact.max < 0 && exact.max > -kSmallest) exact.max = 0;
  return exact;
}

ValueBounds Computed(DType dtype, const ValueBounds& exact) {
  return IsFloat(dtype) ? Rounded(dtype, exact) : Integer(dtype, exact);
}

ValueBounds OfIndex(const SymExpr& index, const SymBounds& known) {
  const ValueRange range = RangeWithin(index, known);
  return Integer(DType::kInt64, {static_cast<double>(range.min),
                                 static_cast<double>(range.max)});
}

ValueBounds Product(const ValueBounds& a, const ValueBounds& b) {
  const double all[] = {a.min * b.min, a.min * b.max, a.max * b.min,
                        a.max * b.max};
  return {*std::min_element(all, all + 4), *std::max_element(all, all + 4)};
}

class Bounder {
 public:
  Bounder(const LoopNest& nest, const ShapeEnv& shapes)
      : nest_(nest), extents_(ExtentsOf(nest)), known_{shapes, extents_} {}

  std::vector<ValueBounds> Run() {
    for (const ScalarNode& node : nest_.body) bounds_.push_back(Of(node));
    return std::move(bounds_);
  }

 private:
  const ValueBounds& Arg(const ScalarNode& node, int k) const {
    return bounds_[node.args[k]];
  }

  ValueBounds Of(const ScalarNode& node) const {
    switch (node.op) {
      case ScalarOp::kConstant:
        return OfConstant(node);
      case ScalarOp::kIndex:
        return OfIndex(node.index[0], known_);
      case ScalarOp::kCheckIndex:
      case ScalarOp::kWrapIndex:
        return OfCheckedIndex(node);
      case ScalarOp::kWhere:
        return Either(Arg(node, 1), Arg(node, 2));
      case ScalarOp::kMaximum:
      case ScalarOp::kMinimum:
        return Extreme(node);
      case ScalarOp::kCast:
        return OfCast(node.dtype, node.args[0]);
      case ScalarOp::kFloor:
      case ScalarOp::kCeil:
      case ScalarOp::kTrunc:
        return WholePart(node);
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
      case ScalarOp::kMul:
      case ScalarOp::kFloorDiv:
      case ScalarOp::kRemainder:
        return OfArithmetic(node);
      case ScalarOp::kNeg:
        return Computed(node.dtype, {-Arg(node, 0).max, -Arg(node, 0).min,
                                     Arg(node, 0).number});
      default:  // nothing is known of the others
        return AnyOf(node.dtype);
    }
  }

  static ValueBounds OfConstant(const ScalarNode& node) {
    if (!IsFloat(node.dtype)) {
      const double value = static_cast<double>(node.number.i);
      return Integer(node.dtype, {value, value});
    }
    const double value = node.number.f;
    if (!std::isfinite(value)) return AnyOf(node.dtype);
    return {value, value};
  }

  // An index that is out of range becomes 0.
  ValueBounds OfCheckedIndex(const ScalarNode& node) const {
    const double most = Arg(node, 1).max - 1;
    return Integer(node.dtype, {0, std::max(0.0, most)});
  }

  static ValueBounds Either(const ValueBounds& a, const ValueBounds& b) {
    return {std::min(a.min, b.min), std::max(a.max, b.max),
            a.number && b.number};
  }

  ValueBounds Extreme(const ScalarNode& node) const {
    const ValueBounds& a = Arg(node, 0);
    const ValueBounds& b = Arg(node, 1);
    const bool number = a.number && b.number;
    return node.op == ScalarOp::kMaximum
               ? ValueBounds{std::max(a.min, b.min), std::max(a.max, b.max),
                             number}
               : ValueBounds{std::min(a.min, b.min), std::min(a.max, b.max),
                             number};
  }

  ValueBounds OfCast(DType to, ScalarId value) const {
    const ValueBounds& from = bounds_[value];
    if (to == DType::kBool || !IsFinite(from)) return AnyOf(to);
    if (!IsFloat(to)) {
      return Integer(to, {std::trunc(from.min), std::trunc(from.max)});
    }
    constexpr double kExactInFloat32 = 1 << 24;
    const bool exact = !IsFloat(nest_.body[value].dtype) && !IsHalf(to) &&
                       from.Within(-kExactInFloat32, kExactInFloat32);
    return exact ? from : Rounded(to, from);
  }

  ValueBounds WholePart(const ScalarNode& node) const {
    const ValueBounds& of = Arg(node, 0);
    if (!IsFinite(of)) return AnyOf(node.dtype);
    const auto whole = [&](double x) {
      return node.op == ScalarOp::kFloor  ? std::floor(x)
             : node.op == ScalarOp::kCeil ? std::ceil(x)
                                          : std::trunc(x);
    };
    return {whole(of.min), whole(of.max)};
  }

  ValueBounds OfArithmetic(const ScalarNode& node) const {
    const ValueBounds& a = Arg(node, 0);
    const ValueBounds& b = Arg(node, 1);
    if (node.op == ScalarOp::kRemainder && !IsFloat(node.dtype) && b.min > 0 &&
        IsFinite(b)) {
      return {0, b.max - 1};
    }
    if (!IsFinite(a) || !IsFinite(b)) return AnyOf(node.dtype);
    switch (node.op) {
      case ScalarOp::kAdd:
        return Computed(node.dtype, {a.min + b.min, a.max + b.max});
      case ScalarOp::kSub:
        return Computed(node.dtype, {a.min - b.max, a.max - b.min});
      case ScalarOp::kMul:
        return Computed(node.dtype, Product(a, b));
      case ScalarOp::kFloorDiv: {
        if (IsFloat(node.dtype) || b.min < 1) return AnyOf(node.dtype);
        const double least = std::min(a.min / b.min, a.min / b.max);
        const double most = std::max(a.max / b.min, a.max / b.max);
        return Integer(node.dtype, {std::floor(least), std::floor(most)});
      }
      default:  // a remainder of floats, or by a divisor that can be 0
        return AnyOf(node.dtype);
    }
  }

  const LoopNest& nest_;
  const std::vector<SymExpr> extents_;
  const SymBounds known_;
  std::vector<ValueBounds> bounds_;
};

}  // namespace

std::vector<ValueBounds> BoundValues(const LoopNest& nest,
                                     const ShapeEnv& shapes) {
  return Bounder(nest, shapes).Run();
}

}  // namespace kiln

#include "compiler/schedule/gelu_gradient.h"

#include <cmath>

#include "proto/base/dtype.h"

namespace kiln {
namespace {

// From -kFurthest to kFurthest, outside of which the derivative is 0 or 1.
constexpr double kFurthest = 6;
constexpr double kStep = 0.377;
// Above what rounding the constants to float32 changes. A half type's rounding is a
// thousand times as large, and so is the distance to the derivative of the erf form.
constexpr double kTolerance = 2e-6;

double GeluTanhGradient(double x) {
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  const double tanh = std::tanh(scale * (x + cubic * x * x * x));
  const double inner = scale * (1 + 3 * cubic * x * x);
  return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner;
}

// A value as a function of the sum and one load.
class Factor {
 public:
  Factor(const std::vector<ScalarNode>& body, ScalarId value, ScalarId sum)
      : body_(body),
        value_(value),
        sum_(sum),
        used_(value + 1),
        degrees_(value + 1) {}

  // Whether the value is the sum times a function of one load alone, by its form: no
  // number of samples would prove that.
  bool IsOfSum() {
    if (value_ <= sum_ || !FindLoad()) return false;
    for (ScalarId id = 0; id <= value_; ++id) {
      if (!used_[id]) continue;
      const std::optional<int> degree = DegreeOf(id);
      if (!degree.has_value()) return false;
      degrees_[id] = *degree;
    }
    return degrees_[value_] == 1;
  }

  // The function at x.
  double At(double x) {
    values_.resize(value_ + 1);
    for (ScalarId id = 0; id <= value_; ++id) {
      if (!used_[id]) continue;
      values_[id] = id == sum_ ? 1 : id == *load_ ? x : Computed(body_[id]);
    }
    return values_[value_];
  }

  // The load, or the cast that reads it.
  ScalarId input() const {
    for (ScalarId id = *load_ + 1; id <= value_; ++id) {
      if (used_[id] && body_[id].op == ScalarOp::kCast &&
          body_[id].args[0] == *load_)
        return id;
    }
    return *load_;
  }

 private:
  // Marks what the value is computed from. Returns false unless there is one load.
  bool FindLoad() {
    used_[value_] = true;
    for (ScalarId id = value_ + 1; id-- > 0;) {
      if (!used_[id] || id == sum_) continue;
      if (body_[id].op == ScalarOp::kLoad) {
        if (load_.has_value()) return false;
        load_ = id;
        continue;
      }
      for (const ScalarId arg : body_[id].args) used_[arg] = true;
    }
    return load_.has_value();
  }

  // The power of the sum that each term of the node has, 0 or 1. None if it is higher or
  // terms differ, or if the node is no analytic function of x, which may be another
  // function wherever it is not sampled.
  std::optional<int> DegreeOf(ScalarId id) const {
    if (id == sum_) return 1;
    if (id == *load_) return 0;
    const ScalarNode& node = body_[id];
    if (!IsFloat(node.dtype)) return std::nullopt;
    const auto degree = [&](size_t i) { return degrees_[node.args[i]]; };
    switch (node.op) {
      case ScalarOp::kConstant:
        return 0;
      case ScalarOp::kCast:
        if (!IsFloat(body_[node.args[0]].dtype)) return std::nullopt;
        return degree(0);
      case ScalarOp::kNeg:
        return degree(0);
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
        if (degree(0) != degree(1)) return std::nullopt;
        return degree(0);
      case ScalarOp::kMul:
        if (degree(0) + degree(1) > 1) return std::nullopt;
        return degree(0) + degree(1);
      case ScalarOp::kSquare:
      case ScalarOp::kTanh:
        if (degree(0) != 0) return std::nullopt;
        return 0;
      default:
        return std::nullopt;
    }
  }

  double Computed(const ScalarNode& node) const {
    const auto arg = [&](size_t i) { return values_[node.args[i]]; };
    switch (node.op) {
      case ScalarOp::kConstant:
        return node.number.f;
      case ScalarOp::kAdd:
        return arg(0) + arg(1);
      case ScalarOp::kSub:
        return arg(0) - arg(1);
      case ScalarOp::kMul:
        return arg(0) * arg(1);
      case ScalarOp::kNeg:
        return -arg(0);
      case ScalarOp::kSquare:
        return arg(0) * arg(0);
      case ScalarOp::kTanh:
        return std::tanh(arg(0));
      default:  // kCast
        return arg(0);
    }
  }

  const std::vector<ScalarNode>& body_;
  const ScalarId value_;
  const ScalarId sum_;
  std::vector<bool> used_;
  std::vector<int> degrees_;
  std::optional<ScalarId> load_;
  std::vector<double> values_;
};

}  // namespace

std::optional<ScalarId> InputOfGeluTanhGradient(
    const std::vector<ScalarNode>& body, ScalarId value, ScalarId sum) {
  Factor factor(body, value, sum);
  if (!factor.IsOfSum()) return std::nullopt;
  for (double x = -kFurthest; x <= kFurthest; x += kStep) {
    if (!(std::abs(factor.At(x) - GeluTanhGradient(x)) <= kTolerance))
      return std::nullopt;
  }
  return factor.input();
}

}  // namespace kiln

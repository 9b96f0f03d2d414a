#include "compiler/schedule/gelu_gradient.h"

#include <cmath>

#include "compiler/reference/special_functions.h"
#include "proto/base/dtype.h"

namespace kiln {
namespace {

// Half a step at a time from -6 to 6, outside of which the derivative is 0 or 1.
constexpr double kFurthest = 6;
constexpr double kStep = 0.5;
// The value must be linear in the sum: three points tell a constant and a square.
constexpr double kSums[] = {0, 1, -0.75};
// Above the rounding of constants to float32, below the distance to the derivative of
// the erf form, 1e-3.
constexpr double kTolerance = 1e-5;

class Evaluator {
 public:
  Evaluator(const std::vector<ScalarNode>& body, ScalarId value, ScalarId sum)
      : body_(body), value_(value), sum_(sum), used_(value + 1) {}

  // Marks what the value is computed from, and finds its one load. False if there is
  // another leaf, or an operation that is not analytic.
  bool FindInput() {
    if (value_ <= sum_) return false;
    used_[value_] = true;
    for (ScalarId id = value_ + 1; id-- > 0;) {
      if (!used_[id] || id == sum_) continue;
      if (body_[id].op == ScalarOp::kLoad) {
        if (input_.has_value()) return false;
        input_ = id;
        continue;
      }
      if (!IsFloat(body_[id].dtype) || !IsAnalytic(id)) return false;
      for (const ScalarId arg : body_[id].args) used_[arg] = true;
    }
    return input_.has_value() && used_[sum_];
  }

  // At a point of the sum and the input.
  double At(double sum, double x) {
    values_.resize(value_ + 1);
    for (ScalarId id = 0; id <= value_; ++id) {
      if (!used_[id]) continue;
      values_[id] = id == sum_ ? sum : id == *input_ ? x : Computed(body_[id]);
    }
    return values_[value_];
  }

  // The load, or the cast that is all that reads it.
  ScalarId input() const {
    for (ScalarId id = *input_ + 1; id <= value_; ++id) {
      if (used_[id] && body_[id].op == ScalarOp::kCast &&
          body_[id].args[0] == *input_)
        return id;
    }
    return *input_;
  }

 private:
  bool IsAnalytic(ScalarId id) const {
    switch (body_[id].op) {
      case ScalarOp::kConstant:
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
      case ScalarOp::kMul:
      case ScalarOp::kNeg:
      case ScalarOp::kSquare:
      case ScalarOp::kTanh:
        return true;
      case ScalarOp::kCast:
        return IsFloat(body_[body_[id].args[0]].dtype);
      default:
        return false;
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
  std::optional<ScalarId> input_;
  std::vector<double> values_;
};

}  // namespace

std::optional<ScalarId> InputOfGeluTanhGradient(
    const std::vector<ScalarNode>& body, ScalarId value, ScalarId sum) {
  Evaluator evaluator(body, value, sum);
  if (!evaluator.FindInput()) return std::nullopt;
  for (double x = -kFurthest; x <= kFurthest; x += kStep) {
    for (const double at : kSums) {
      const double difference = evaluator.At(at, x) - at * GeluTanhGradient(x);
      if (!(std::abs(difference) <= kTolerance)) return std::nullopt;
    }
  }
  return evaluator.input();
}

}  // namespace kiln

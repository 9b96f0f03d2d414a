#include "compiler/schedule/one_pass_form.h"

#include <utility>
#include <vector>

#include "compiler/loop/body_builder.h"

namespace kiln {

namespace {

bool IsFloatReduction(const ScalarNode& node, ReduceOp op) {
  return node.op == ScalarOp::kReduce && node.reduce == op &&
         node.dtype == DType::kFloat32 && node.args.size() == 1;
}

class Rewriter {
 public:
  explicit Rewriter(const LoopNest& nest) : nest_(nest), body_(nest.body) {
    SymExpr points = 1;
    for (const Axis& axis : nest.axes)
      if (axis.reduction) points = points * axis.extent;
    if (points.is_constant()) points_ = points.constant();
  }

  std::optional<LoopNest> Run() {
    for (ScalarId second = 0; second < body_.size(); ++second) {
      if (!IsFloatReduction(body_[second], ReduceOp::kSum)) continue;
      if (!TakeSoftmax(second)) TakeMoments(second);
    }
    if (!changed_) return std::nullopt;
    LoopNest out = nest_;
    out.body = body_;
    DropDeadNodes(out);
    return out;
  }

 private:
  // sum(exp(x - m)) with m = max(x).
  bool TakeSoftmax(ScalarId second) {
    const ScalarNode& exp = body_[body_[second].args[0]];
    if (exp.op != ScalarOp::kExp) return false;
    const ScalarNode& apart = body_[exp.args[0]];
    if (apart.op != ScalarOp::kSub) return false;
    const ScalarId max = apart.args[1];
    if (!IsFloatReduction(body_[max], ReduceOp::kMax) ||
        body_[max].args[0] != apart.args[0]) {
      return false;
    }
    body_[max].reduce = ReduceOp::kSoftmax;
    ReadMember(second, max, 1);
    return true;
  }

  // sum((x - m)^2) with m = sum(x) / n or sum(x) * (1 / n).
  void TakeMoments(ScalarId second) {
    const ScalarNode& square = body_[body_[second].args[0]];
    ScalarId apart = 0;
    if (square.op == ScalarOp::kSquare) {
      apart = square.args[0];
    } else if (square.op == ScalarOp::kMul &&
               square.args[0] == square.args[1]) {
      apart = square.args[0];
    } else {
      return;
    }
    if (body_[apart].op != ScalarOp::kSub) return;
    const ScalarId mean = body_[apart].args[1];
    const ScalarNode& quotient = body_[mean];
    if (quotient.op != ScalarOp::kDiv) return;
    const ScalarId sum = quotient.args[0];
    if (!IsFloatReduction(body_[sum], ReduceOp::kSum) ||
        body_[sum].args[0] != body_[apart].args[0] ||
        !CountsPoints(body_[quotient.args[1]])) {
      return;
    }
    body_[sum].reduce = ReduceOp::kMoments;
    ReadMember(mean, sum, 1);
    ReadMember(second, sum, 2);
  }

  bool CountsPoints(const ScalarNode& node) const {
    return node.op == ScalarOp::kConstant && points_ > 0 &&
           node.number.f == static_cast<double>(points_);
  }

  void ReadMember(ScalarId node, ScalarId tuple, int64_t number) {
    ScalarNode member{ScalarOp::kReduceResult, DType::kFloat32};
    member.number.i = number;
    member.args = {tuple};
    body_[node] = std::move(member);
    changed_ = true;
  }

  const LoopNest& nest_;
  std::vector<ScalarNode> body_;
  int64_t points_ = 0;  // 0: unknown
  bool changed_ = false;
};

}  // namespace

std::optional<LoopNest> OnePassForm(const LoopNest& nest) {
  return Rewriter(nest).Run();
}

}  // namespace kiln

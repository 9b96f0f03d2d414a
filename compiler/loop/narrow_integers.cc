#include "compiler/loop/narrow_integers.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/value_bounds.h"

namespace kiln {
namespace {

// Whether the operation has arguments of its own type, except a cast and the condition of
// a choice, and can be computed in 32 bits.
bool IsNarrowable(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kNeg:
    case ScalarOp::kFloorDiv:
    case ScalarOp::kRemainder:
    case ScalarOp::kMaximum:
    case ScalarOp::kMinimum:
    case ScalarOp::kWhere:
    case ScalarOp::kCast:
      return true;
    default:  // other operations stay in 64 bits
      return false;
  }
}

class Narrower {
 public:
  Narrower(const LoopNest& nest, const ShapeEnv& shapes)
      : nest_(nest), bounds_(BoundValues(nest, shapes)) {}

  // None if nothing changes.
  std::optional<LoopNest> Run() {
    narrow_.assign(nest_.body.size(), false);
    bool any = false;
    for (ScalarId id = 0; id < nest_.body.size(); ++id) {
      narrow_[id] = MayBeNarrow(id);
      any |= narrow_[id] || Decided(nest_.body[id]).has_value() ||
             ReadsAnIndex(nest_.body[id]);
    }
    if (!any) return std::nullopt;
    while (WidenWhatIsReadWide()) {
    }
    LoopNest out = nest_;
    Rewrite(out);
    if (out.body == nest_.body) return std::nullopt;
    return out;
  }

 private:
  const ScalarNode& node(ScalarId id) const { return nest_.body[id]; }

  bool Fits(ScalarId id) const {
    return bounds_[id].Within(std::numeric_limits<int32_t>::min(),
                              std::numeric_limits<int32_t>::max());
  }

  // Whether the node is a leaf that can be computed in both types.
  bool IsLeaf(ScalarId id) const {
    return node(id).dtype == DType::kInt64 && Fits(id) &&
           (node(id).op == ScalarOp::kConstant ||
            node(id).op == ScalarOp::kIndex);
  }
  bool HasNarrowForm(ScalarId id) const { return narrow_[id] || IsLeaf(id); }

  // Whether the node may be narrow, judged by its own value and its arguments.
  bool MayBeNarrow(ScalarId id) const {
    const ScalarNode& n = node(id);
    if (n.dtype != DType::kInt64 || !IsNarrowable(n.op) || !Fits(id))
      return false;
    if (n.op == ScalarOp::kCast) return true;
    for (const ScalarId arg : n.args) {
      if (node(arg).dtype == DType::kInt64 && !HasNarrowForm(arg)) return false;
    }
    return true;
  }

  // Whether the node is a cast of an index of the nest.
  bool ReadsAnIndex(const ScalarNode& n) const {
    return n.op == ScalarOp::kCast && IsLeaf(n.args[0]);
  }

  // Whether a comparison is done in 32 bits: both sides can be, and it is not a range of
  // an index.
  bool ComparesNarrow(const ScalarNode& n) const {
    return IsComparison(n.op) && HasNarrowForm(n.args[0]) &&
           HasNarrowForm(n.args[1]) &&
           (narrow_[n.args[0]] || narrow_[n.args[1]]);
  }

  // Whether the node reads that argument in 32 bits.
  bool TakesNarrow(ScalarId id, ScalarId arg) const {
    const ScalarNode& n = node(id);
    if (n.op == ScalarOp::kCast || narrow_[id]) return HasNarrowForm(arg);
    return ComparesNarrow(n);
  }

  // Makes nodes wide again that are read in 64 bits. Returns whether there were any.
  bool WidenWhatIsReadWide() {
    const std::vector<bool> before = narrow_;
    for (ScalarId id = static_cast<ScalarId>(nest_.body.size()); id-- > 0;) {
      narrow_[id] = narrow_[id] && MayBeNarrow(id);
      for (const ScalarId arg : node(id).args)
        if (!TakesNarrow(id, arg)) narrow_[arg] = false;
    }
    for (const Store& store : nest_.stores) narrow_[store.value] = false;
    return narrow_ != before;
  }

  // The result of a comparison if it is the same for all values.
  std::optional<bool> Decided(const ScalarNode& n) const {
    if (!IsComparison(n.op) || n.args.size() != 2) return std::nullopt;
    const ValueBounds& a = bounds_[n.args[0]];
    const ValueBounds& b = bounds_[n.args[1]];
    if (!a.number || !b.number) return std::nullopt;
    switch (n.op) {
      case ScalarOp::kLt:
        return LessThan(a, b);
      case ScalarOp::kGt:
        return LessThan(b, a);
      case ScalarOp::kGe:
        return Not(LessThan(a, b));
      case ScalarOp::kLe:
        return Not(LessThan(b, a));
      default:  // bounds do not decide equality
        return std::nullopt;
    }
  }
  static std::optional<bool> LessThan(const ValueBounds& a,
                                      const ValueBounds& b) {
    if (a.max < b.min) return true;
    if (a.min >= b.max) return false;
    return std::nullopt;
  }
  static std::optional<bool> Not(std::optional<bool> answer) {
    if (answer.has_value()) *answer = !*answer;
    return answer;
  }

  void Rewrite(LoopNest& out) {
    for (uint32_t a = 0; a < nest_.axes.size(); ++a)
      axes_.push_back(SymExpr::Axis(a));
    for (ScalarId id = 0; id < nest_.body.size(); ++id)
      ids_.push_back(NewNode(id));
    for (Store& store : out.stores) {
      store.value = ids_[store.value];
      if (store.mask != Store::kNoMask) store.mask = ids_[store.mask];
      if (store.mask != Store::kNoMask && Holds(store.mask))
        store.mask = Store::kNoMask;
      for (SymExpr& e : store.index) e = Rewritten(e);
    }
    out.body = body_.Take();
    DropDeadNodes(out);
  }

  SymExpr Rewritten(const SymExpr& index) const {
    return RewriteIndex(index, axes_, ids_, body_);
  }

  // Whether a new node is the constant true.
  bool Holds(ScalarId id) const {
    const ScalarNode& n = body_.node(id);
    return n.op == ScalarOp::kConstant && n.dtype == DType::kBool &&
           n.number.i != 0;
  }

  // The new node for an argument.
  ScalarId Argument(ScalarId id, ScalarId arg) {
    if (!TakesNarrow(id, arg) || !IsLeaf(arg)) return ids_[arg];
    const ScalarNode& leaf = node(arg);
    return leaf.op == ScalarOp::kConstant
               ? body_.Int(DType::kInt32, leaf.number.i)
               : body_.Index(Rewritten(leaf.index[0]), DType::kInt32);
  }

  ScalarId NewNode(ScalarId id) {
    ScalarNode n = node(id);
    if (const std::optional<bool> answer = Decided(n))
      return body_.Bool(*answer);
    for (ScalarId& arg : n.args) arg = Argument(id, arg);
    for (SymExpr& e : n.index) e = Rewritten(e);
    if (narrow_[id]) n.dtype = DType::kInt32;
    switch (n.op) {
      case ScalarOp::kCast:
        return body_.Cast(n.dtype, n.args[0]);
      case ScalarOp::kWhere:
      case ScalarOp::kAnd:
        return body_.Op(n.op, n.args);
      case ScalarOp::kLoad:
        if (!n.args.empty() && Holds(n.args[0])) n.args.clear();
        return body_.Add(std::move(n));
      default:  // no special rule
        return body_.Add(std::move(n));
    }
  }

  const LoopNest& nest_;
  const std::vector<ValueBounds> bounds_;
  std::vector<bool> narrow_;  // i64 nodes that are computed as i32
  std::vector<SymExpr> axes_;
  BodyBuilder body_;
  std::vector<ScalarId> ids_;  // for each old node the new one
};

}  // namespace

int NarrowIntegers(LoopProgram& program) {
  int changed = 0;
  for (LoopStep& step : program.steps) {
    auto* nest = std::get_if<LoopNest>(&step);
    if (nest == nullptr) continue;
    std::optional<LoopNest> narrowed = Narrower(*nest, program.shapes).Run();
    if (!narrowed.has_value()) continue;
    *nest = *std::move(narrowed);
    ++changed;
  }
  return changed;
}

}  // namespace kiln

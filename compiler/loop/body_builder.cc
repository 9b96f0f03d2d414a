#include "compiler/loop/body_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/hash/hash.h"
#include "compiler/loop/index_expr.h"
#include "compiler/sym/sym_simplify.h"

namespace kiln {

namespace {

uint64_t HashOf(const ScalarNode& node) {
  uint64_t h =
      absl::HashOf(static_cast<int>(node.op), static_cast<int>(node.dtype),
                   node.number.i, static_cast<int>(node.reduce), node.buffer);
  for (const ScalarId arg : node.args) h = h * 0x9E3779B97F4A7C15u + arg;
  for (const SymExpr& index : node.index) {
    h = h * 0x9E3779B97F4A7C15u + absl::HashOf(index);
  }
  return h;
}

// `value` wrapped around to the range of `dtype`.
int64_t Wrap(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kBool:
      return value != 0;
    case DType::kUInt8:
      return static_cast<uint8_t>(value);
    case DType::kInt8:
      return static_cast<int8_t>(value);
    case DType::kInt16:
      return static_cast<int16_t>(value);
    case DType::kInt32:
      return static_cast<int32_t>(value);
    case DType::kInt64:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return value;
  }
  return value;
}

bool IsPredicate(ScalarOp op) {
  return IsComparison(op) || op == ScalarOp::kIsNan || op == ScalarOp::kIsInf ||
         op == ScalarOp::kSignBit;
}

}  // namespace

void BodyBuilder::Reserve(size_t more) {
  const size_t due = body_.size() + more;
  if (due <= body_.capacity()) return;
  // Also after many calls a node is moved only a few times.
  body_.reserve(std::max(due, 2 * body_.capacity()));
  hashes_.reserve(body_.capacity());
}

ScalarId BodyBuilder::Add(ScalarNode&& node) {
  const uint64_t hash = HashOf(node);
  for (uint32_t i = 0; i < hashes_.size(); ++i) {
    if (hashes_[i] == hash && body_[i] == node) return i;
  }
  constexpr size_t kFew = 6;  // nodes that most nests have
  if (body_.empty()) Reserve(kFew);
  body_.push_back(std::move(node));
  hashes_.push_back(hash);
  return size() - 1;
}

ScalarId BodyBuilder::Float(DType dtype, double value) {
  if (!IsFloat(dtype)) {
    if (dtype == DType::kBool) return Int(dtype, value != 0);
    if (!std::isfinite(value)) value = 0;
    return Int(dtype, static_cast<int64_t>(value));
  }
  ScalarNode node{ScalarOp::kConstant, dtype};
  node.number.f = dtype == DType::kFloat64 ? value : static_cast<float>(value);
  return Add(std::move(node));
}

ScalarId BodyBuilder::Int(DType dtype, int64_t value) {
  if (IsFloat(dtype)) return Float(dtype, static_cast<double>(value));
  ScalarNode node{ScalarOp::kConstant, dtype};
  node.number.i = Wrap(dtype, value);
  return Add(std::move(node));
}

ScalarId BodyBuilder::Index(const SymExpr& index, DType dtype) {
  if (index.is_constant()) return Int(dtype, index.constant());
  ScalarNode node{ScalarOp::kIndex, dtype};
  node.index.push_back(index);
  return Add(std::move(node));
}

ScalarId BodyBuilder::Load(BufferId buffer, DType dtype, DimVector index) {
  ScalarNode node{ScalarOp::kLoad, dtype};
  node.buffer = buffer;
  node.index = std::move(index);
  return Add(std::move(node));
}

ScalarId BodyBuilder::MaskedLoad(BufferId buffer, DType dtype, DimVector index,
                                 ScalarId mask) {
  ScalarNode node{ScalarOp::kLoad, dtype};
  node.buffer = buffer;
  node.index = std::move(index);
  node.args.push_back(mask);
  return Add(std::move(node));
}

ScalarId BodyBuilder::Op(ScalarOp op, absl::Span<const ScalarId> args) {
  if (op == ScalarOp::kWhere) {
    const ScalarNode& condition = body_[args[0]];
    if (condition.op == ScalarOp::kConstant) {
      return condition.number.i != 0 ? args[1] : args[2];
    }
    if (args[1] == args[2]) return args[1];
  }
  if (op == ScalarOp::kAnd && body_[args[0]].dtype == DType::kBool) {
    for (int side = 0; side < 2; ++side) {
      const ScalarNode& node = body_[args[side]];
      if (node.op != ScalarOp::kConstant) continue;
      return node.number.i != 0 ? args[1 - side] : args[side];
    }
  }
  ScalarNode node{op, DType::kBool};
  if (!IsPredicate(op)) {
    node.dtype = body_[op == ScalarOp::kWhere ? args[1] : args[0]].dtype;
  }
  node.args.assign(args.begin(), args.end());
  return Add(std::move(node));
}

ScalarId BodyBuilder::Cast(DType dtype, ScalarId value) {
  const ScalarNode& from = body_[value];
  if (from.dtype == dtype) return value;
  // A constant of a half type stays a cast, because constants have no half types.
  if (from.op == ScalarOp::kConstant && !IsHalf(dtype)) {
    return IsFloat(from.dtype) ? Float(dtype, from.number.f)
                               : Int(dtype, from.number.i);
  }
  if (IsHalf(from.dtype)) {
    // The value before rounding is available, and at least as precise.
    if (from.op == ScalarOp::kCast && IsFloat(body_[from.args[0]].dtype)) {
      return Cast(dtype, from.args[0]);
    }
    if (dtype != DType::kFloat32) {
      return Cast(dtype, Cast(DType::kFloat32, value));
    }
  }
  if (IsHalf(dtype) && from.dtype != DType::kFloat32) {
    return Cast(dtype, Cast(DType::kFloat32, value));
  }
  ScalarNode node{ScalarOp::kCast, dtype};
  node.args.push_back(value);
  return Add(std::move(node));
}

ScalarId BodyBuilder::Bitcast(DType dtype, ScalarId value) {
  ScalarNode node{ScalarOp::kBitcast, dtype};
  node.args.push_back(value);
  return Add(std::move(node));
}

ScalarId BodyBuilder::Reduce(ReduceOp reduce, DType dtype,
                             absl::Span<const ScalarId> args) {
  ScalarNode node{ScalarOp::kReduce, dtype};
  node.reduce = reduce;
  node.args.assign(args.begin(), args.end());
  return Add(std::move(node));
}

SymExpr BodyBuilder::AsIndex(ScalarId id) const {
  const ScalarNode* node = &body_[id];
  // A widening cast of an index is the index.
  while (node->op == ScalarOp::kCast && node->dtype == DType::kInt64 &&
         (body_[node->args[0]].op == ScalarOp::kIndex ||
          body_[node->args[0]].op == ScalarOp::kConstant)) {
    node = &body_[node->args[0]];
  }
  if (node->op == ScalarOp::kConstant && !IsFloat(node->dtype)) {
    return node->number.i;
  }
  if (node->op == ScalarOp::kIndex) return node->index[0];
  return SymExpr::Indirect(id);
}

// False also if it is not known.
bool BodyBuilder::ProvesNonNegative(ScalarId id) const {
  const ScalarNode& node = body_[id];
  switch (node.op) {
    case ScalarOp::kConstant:
      return !IsFloat(node.dtype) && node.number.i >= 0;
    case ScalarOp::kIndex:
      return shapes_ != nullptr &&
             ProveNonNegative(node.index[0], {*shapes_, extents_});
    case ScalarOp::kCheckIndex:
    case ScalarOp::kWrapIndex:
      return true;
    case ScalarOp::kWhere:
      return ProvesNonNegative(node.args[1]) && ProvesNonNegative(node.args[2]);
    case ScalarOp::kMinimum:
      return ProvesNonNegative(node.args[0]) && ProvesNonNegative(node.args[1]);
    case ScalarOp::kMaximum:
      return ProvesNonNegative(node.args[0]) || ProvesNonNegative(node.args[1]);
    case ScalarOp::kRemainder:  // has the sign of the divisor
      return ProvesNonNegative(node.args[1]);
    case ScalarOp::kCast:
      return node.dtype == DType::kInt64 &&
             !IsFloat(body_[node.args[0]].dtype) &&
             ProvesNonNegative(node.args[0]);
    default:  // nothing is known of the others
      return false;
  }
}

bool BodyBuilder::ProvesBelow(ScalarId id, ScalarId size) const {
  const ScalarNode& node = body_[id];
  const SymExpr below = AsIndex(size);
  const auto is_less = [&](const SymExpr& e) {
    if (e.is_constant() && below.is_constant())
      return e.constant() < below.constant();
    return shapes_ != nullptr && ProveLt(e, below, {*shapes_, extents_});
  };
  switch (node.op) {
    case ScalarOp::kConstant:
      return !IsFloat(node.dtype) && is_less(node.number.i);
    case ScalarOp::kIndex:
      return is_less(node.index[0]);
    case ScalarOp::kCheckIndex:
    case ScalarOp::kWrapIndex:
      return node.args[1] == size;
    case ScalarOp::kWhere:
      return ProvesBelow(node.args[1], size) && ProvesBelow(node.args[2], size);
    case ScalarOp::kMinimum:
      return ProvesBelow(node.args[0], size) || ProvesBelow(node.args[1], size);
    case ScalarOp::kMaximum:
      return ProvesBelow(node.args[0], size) && ProvesBelow(node.args[1], size);
    case ScalarOp::kRemainder: {  // below its divisor, when that is above 0
      const SymExpr divisor = AsIndex(node.args[1]);
      return divisor.is_constant() && divisor.constant() > 0 &&
             is_less(divisor.constant() - 1);
    }
    case ScalarOp::kCast:
      return node.dtype == DType::kInt64 &&
             !IsFloat(body_[node.args[0]].dtype) &&
             ProvesBelow(node.args[0], size);
    default:  // nothing is known of the others
      return false;
  }
}

ScalarId BodyBuilder::CheckIndex(ScalarOp op, ScalarId index, ScalarId size,
                                 ScalarId mask) {
  if (ProvesNonNegative(index) && ProvesBelow(index, size)) return index;
  ScalarNode node{op, DType::kInt64};
  node.args = {index, size};
  if (mask != Store::kNoMask) node.args.push_back(mask);
  return Add(std::move(node));
}

std::vector<ScalarNode> BodyBuilder::Take() {
  hashes_.clear();
  return std::move(body_);
}

SymExpr RewriteIndex(const SymExpr& index, absl::Span<const SymExpr> axes,
                     absl::Span<const ScalarId> nodes, const BodyBuilder& to) {
  if (index.is_constant()) return index;
  const bool same = axes.data() == nullptr;  // kSameAxes, or there are none
  if (same && !HasIndirect(index)) return index;
  Var var;
  if (index.AsVar(&var)) {
    if (var.kind == Var::Kind::kAxis) return axes[var.index];
    if (var.kind == Var::Kind::kIndirect) return to.AsIndex(nodes[var.index]);
    return index;
  }
  return index.Substitute([&](Var v) {
    if (v.kind == Var::Kind::kAxis && !same) return axes[v.index];
    if (v.kind == Var::Kind::kIndirect) return to.AsIndex(nodes[v.index]);
    return SymExpr::Of(v);
  });
}

Store CopyStore(Store store, absl::Span<const SymExpr> axes,
                absl::Span<const ScalarId> nodes, const BodyBuilder& to) {
  for (SymExpr& e : store.index) e = RewriteIndex(e, axes, nodes, to);
  store.value = nodes[store.value];
  if (store.mask != Store::kNoMask) store.mask = nodes[store.mask];
  return store;
}

namespace {

bool IsEachItself(absl::Span<const SymExpr> axes) {
  for (uint32_t k = 0; k < axes.size(); ++k) {
    Var var;
    if (!axes[k].AsVar(&var) || !(var == Var{Var::Kind::kAxis, k}))
      return false;
  }
  return true;
}

}  // namespace

std::vector<ScalarId> CopyBody(const std::vector<ScalarNode>& body,
                               absl::Span<const SymExpr> axes, ScalarId mask,
                               LoadReplacement replace, BodyBuilder& to) {
  if (IsEachItself(axes)) axes = kSameAxes;
  to.Reserve(body.size());
  std::vector<ScalarId> ids(body.size());
  for (ScalarId i = 0; i < body.size(); ++i) {
    const ScalarNode& old = body[i];
    ScalarNode node{old.op, old.dtype, old.reduce, old.number};
    node.buffer = old.buffer;
    for (const ScalarId arg : old.args) node.args.push_back(ids[arg]);
    for (const SymExpr& index : old.index) {
      node.index.push_back(RewriteIndex(index, axes, ids, to));
    }
    if (old.op == ScalarOp::kLoad) {
      if (mask != Store::kNoMask) {
        if (node.args.empty()) {
          node.args.push_back(mask);
        } else {
          node.args[0] = to.Op(ScalarOp::kAnd, mask, node.args[0]);
        }
      }
      const std::optional<ScalarId> other = replace(node);
      ids[i] = other.has_value() ? *other : to.Add(std::move(node));
    } else if (IsIndexCheck(old.op)) {
      ScalarId only = node.args.size() > 2 ? node.args[2] : Store::kNoMask;
      if (mask != Store::kNoMask) {
        only =
            only == Store::kNoMask ? mask : to.Op(ScalarOp::kAnd, mask, only);
      }
      ids[i] = to.CheckIndex(node.op, node.args[0], node.args[1], only);
    } else if (old.op == ScalarOp::kIndex) {
      ids[i] = to.Index(node.index[0], node.dtype);
    } else if (old.op == ScalarOp::kCast) {
      ids[i] = to.Cast(node.dtype, node.args[0]);
    } else if (old.op == ScalarOp::kWhere || old.op == ScalarOp::kAnd) {
      ids[i] = to.Op(node.op, node.args);
    } else {
      ids[i] = to.Add(std::move(node));
    }
  }
  return ids;
}

void DropDeadNodes(LoopNest& nest) {
  std::vector<bool> live(nest.body.size(), false);
  const auto mark_index = [&](const DimVector& index) {
    for (const SymExpr& e : index) {
      if (!HasIndirect(e)) continue;
      e.VisitVars([&](Var v) {
        if (v.kind == Var::Kind::kIndirect) live[v.index] = true;
      });
    }
  };
  for (const Store& store : nest.stores) {
    live[store.value] = true;
    if (store.mask != Store::kNoMask) live[store.mask] = true;
    mark_index(store.index);
  }
  size_t dead = 0;
  for (size_t i = nest.body.size(); i-- > 0;) {
    if (!live[i]) {
      ++dead;
      continue;
    }
    for (const ScalarId arg : nest.body[i].args) live[arg] = true;
    mark_index(nest.body[i].index);
  }
  if (dead == 0) return;
  std::vector<ScalarId> ids(nest.body.size());
  std::vector<ScalarNode> body;
  body.reserve(nest.body.size() - dead);
  const auto rename = [&](DimVector& index) {
    for (SymExpr& e : index) {
      if (!HasIndirect(e)) continue;
      e = e.Substitute([&](Var v) {
        return v.kind == Var::Kind::kIndirect ? SymExpr::Indirect(ids[v.index])
                                              : SymExpr::Of(v);
      });
    }
  };
  for (size_t i = 0; i < nest.body.size(); ++i) {
    if (!live[i]) continue;
    ids[i] = static_cast<ScalarId>(body.size());
    ScalarNode& node = nest.body[i];
    for (ScalarId& arg : node.args) arg = ids[arg];
    rename(node.index);
    body.push_back(std::move(node));
  }
  nest.body = std::move(body);
  for (Store& store : nest.stores) {
    store.value = ids[store.value];
    if (store.mask != Store::kNoMask) store.mask = ids[store.mask];
    rename(store.index);
  }
}

void DropDeadNodes(Contraction& contraction) {
  LoopNest nest;
  nest.body = std::move(contraction.body);
  nest.stores.push_back({0, {}, contraction.value});
  DropDeadNodes(nest);
  contraction.body = std::move(nest.body);
  contraction.value = nest.stores[0].value;
}

}  // namespace kiln

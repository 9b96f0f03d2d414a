#include "compiler/codegen/cuda_body.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/index_expr.h"
#include "compiler/sym/sym_simplify.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Elements that one Philox counter gives numbers to.
constexpr int kRandomQuad = 4;

bool IsLeaf(ScalarOp op) {
  return op == ScalarOp::kConstant || op == ScalarOp::kSeed ||
         op == ScalarOp::kIndex || op == ScalarOp::kLoad || IsReduction(op);
}

}  // namespace

void CudaBody::SetVectors(const Vectors& of) {
  vectors = of;
  ahead_.assign(nest.body.size(), false);
  lanes_.assign(nest.body.size(), false);
  if (vectors.width == 1) return;
  // Down columns each lane has results of its own, also of equal values.
  const bool is_down = !nest.axes[vectors.axis].reduction;
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    const bool moves = IsLanes(facts.axes[id]);
    if (!moves && !is_down) continue;
    bool lanes = moves ? IsLeaf(node.op) : IsReduction(node.op);
    if (moves && node.op == ScalarOp::kLoad)
      lanes = MotionOf(facts.load_offset[id], vectors.axis, facts) !=
              Motion::kStill;
    for (ScalarId arg : node.args) lanes = lanes || lanes_[arg];
    lanes_[id] = lanes && !IsUniform(id);
  }
}

// Whether the comparison has one answer for a whole group: both sides count in
// steps of the group's width.
bool CudaBody::IsUniform(ScalarId id) const {
  const ScalarNode& node = nest.body[id];
  if (!IsComparison(node.op) || node.args.size() != 2) return false;
  const ScalarNode& index = nest.body[node.args[0]];
  const ScalarNode& bound = nest.body[node.args[1]];
  if (index.op != ScalarOp::kIndex ||
      MotionOf(index.index[0], vectors.axis, facts) != Motion::kContiguous ||
      HasIndirect(index.index[0]) ||
      !DiffersByMultiple(index.index[0] - SymExpr::Axis(vectors.axis),
                         vectors.rest, vectors.width)) {
    return false;
  }
  SymExpr limit;
  if (bound.op == ScalarOp::kConstant && !IsFloat(bound.dtype)) {
    limit = bound.number.i;
  } else if (bound.op == ScalarOp::kIndex && !lanes_[node.args[1]]) {
    limit = bound.index[0];
  } else {
    return false;
  }
  switch (node.op) {
    case ScalarOp::kLt:
    case ScalarOp::kGe:
      return IsMultiple(limit, vectors.width);
    case ScalarOp::kLe:
    case ScalarOp::kGt:
      return IsMultiple(limit + 1, vectors.width);
    default:  // equal to one neighbour, not to the others
      return false;
  }
}

// Whether the group's numbers are those of whole counters.
bool CudaBody::IsWideRandom(const ScalarNode& node) const {
  const ScalarNode& index = nest.body[node.args[1]];
  return !lanes_[node.args[0]] && index.op == ScalarOp::kIndex &&
         vectors.width % kRandomQuad == 0 &&
         MotionOf(index.index[0], vectors.axis, facts) == Motion::kContiguous &&
         DiffersByMultiple(index.index[0] - SymExpr::Axis(vectors.axis),
                           vectors.rest, kRandomQuad);
}

std::string CudaBody::At(const SymExpr& e) const {
  if (!in_loop_) return Index(e);
  return Index(e, [&](Var var) -> std::string {
    if (var.kind == Var::Kind::kAxis && var.index == vectors.axis)
      return absl::StrCat("(", AxisName(var.index), " + e)");
    return "";
  });
}

void CudaBody::Define(ScalarId id, const std::string& value) {
  const std::string name = Fresh("t");
  out.Line("const ", CTypeName(nest.body[id].dtype), " ", name, " = ", value,
           ";");
  SetText(id, name);
}

std::string CudaBody::SqrtText(DType dtype, const std::string& of) const {
  return absl::StrCat(dtype == DType::kFloat64 ? "sqrt(" : "sqrtf(", of, ")");
}

std::vector<ScalarId> CudaBody::FusedFactors(ScalarId product,
                                             ScalarId user) const {
  const ScalarNode& node = nest.body[product];
  if (!facts.approximate[product] || !facts.approximate[user] ||
      node.dtype != DType::kFloat32) {
    return {};
  }
  if (node.op == ScalarOp::kMul) return {node.args[0], node.args[1]};
  if (node.op == ScalarOp::kSquare) return {node.args[0], node.args[0]};
  return {};
}

std::string CudaBody::IndexComparison(ScalarId id) const {
  const ScalarNode& node = nest.body[id];
  if (!facts.index32 || !IsComparison(node.op) || node.args.size() != 2)
    return "";
  std::string sides[2];
  for (int k = 0; k < 2; ++k) {
    const ScalarNode& side = nest.body[node.args[k]];
    if (side.op == ScalarOp::kConstant && side.dtype == DType::kInt64 &&
        std::abs(side.number.i) < (int64_t{1} << 30)) {
      sides[k] = absl::StrCat(side.number.i);
    } else if (side.op == ScalarOp::kIndex && !HasIndirect(side.index[0])) {
      // An index of a masked access may lie a little outside of what fits.
      const ValueRange range =
          RangeWithin(side.index[0], {shapes, facts.extents});
      if (range.min < -(int64_t{1} << 30) || range.max > (int64_t{1} << 30))
        return "";
      sides[k] = At(side.index[0]);
    } else {
      return "";
    }
  }
  const char* op = nullptr;
  switch (node.op) {
    case ScalarOp::kLt:
      op = " < ";
      break;
    case ScalarOp::kLe:
      op = " <= ";
      break;
    case ScalarOp::kGt:
      op = " > ";
      break;
    case ScalarOp::kGe:
      op = " >= ";
      break;
    case ScalarOp::kEq:
      op = " == ";
      break;
    case ScalarOp::kNe:
      op = " != ";
      break;
    default:  // no comparison of numbers
      return "";
  }
  return absl::StrCat("(", sides[0], op, sides[1], ")");
}

std::string CudaBody::FusedText(ScalarId id) const {
  std::string comparison = IndexComparison(id);
  if (!comparison.empty()) return comparison;
  const ScalarNode& node = nest.body[id];
  if (node.op == ScalarOp::kDiv && node.dtype == DType::kFloat32 &&
      !facts.approximate[id] && !divides_by_branch &&
      nest.body[node.args[1]].op == ScalarOp::kConstant) {
    return QuotientText(Text(node.args[0]), nest.body[node.args[1]].number.f);
  }
  if ((node.op != ScalarOp::kAdd && node.op != ScalarOp::kSub) ||
      node.dtype != DType::kFloat32) {
    return "";
  }
  for (const int k : {0, 1}) {
    const ScalarId product = node.args[k], other = node.args[1 - k];
    // Written in the same loop, where its factors have names.
    if (facts.axes[product] != facts.axes[id]) continue;
    const std::vector<ScalarId> factors = FusedFactors(product, id);
    if (factors.empty()) continue;
    const bool minus_product = node.op == ScalarOp::kSub && k == 1;
    const bool minus_other = node.op == ScalarOp::kSub && k == 0;
    return absl::StrCat("fmaf(", minus_product ? "-" : "", Text(factors[0]),
                        ", ", Text(factors[1]), ", ", minus_other ? "-" : "",
                        Text(other), ")");
  }
  return "";
}

absl::Status CudaBody::IndexValue(ScalarId id) {
  Define(id, At(nest.body[id].index[0]));
  return absl::OkStatus();
}

// With what the device prints beside index and size when it stops the grid: the
// operators of the nest, one of which has the index, and the kernel.
void CudaBody::IndexCheck(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  std::string text =
      node.op == ScalarOp::kWrapIndex ? "k_wrap_index(" : "k_check_index(";
  for (ScalarId arg : node.args) absl::StrAppend(&text, Text(arg), ", ");
  if (node.args.size() < 3) absl::StrAppend(&text, "true, ");
  Define(id, absl::StrCat(text, "\", in ", absl::StrJoin(nest.origins, "+"),
                          "\", \"", kSymbolPlaceholder, "\")"));
}

absl::Status CudaBody::Load(ScalarId id) {
  if (ahead_[id]) return absl::OkStatus();
  const ScalarNode& node = nest.body[id];
  const std::string cell = absl::StrCat(BufferName(node.buffer), "[",
                                        At(facts.load_offset[id]), "]");
  Define(id, node.args.empty()
                 ? cell
                 : absl::StrCat(Text(node.args[0]), " ? ", cell, " : ",
                                ConstantText(node.dtype, node.number)));
  return absl::OkStatus();
}

void CudaBody::WideLoad(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const std::string name = Fresh("l");
  if (node.args.empty()) {
    out.Line("const ", PackType(id), " ", name, " = ", WideLoadText(id), ";");
  } else {
    out.Line(PackType(id), " ", name, ";");
    out.Line("if (", Text(node.args[0]), ") ", name, " = ", WideLoadText(id),
             ";");
    out.Line("else k_fill(", name, ", ", ConstantText(node.dtype, node.number),
             ");");
  }
  SetText(id, absl::StrCat("k_at(", name, ", e)"));
}

void CudaBody::WideRandom(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const std::string name = Fresh("l");
  out.Line("float ", name, "[", vectors.width, "];");
  out.Line("k_random_row(", Text(node.args[0]), ", ",
           Index(nest.body[node.args[1]].index[0]), ", ", StreamName(id), ", ",
           name, ");");
  SetText(id, absl::StrCat(name, "[e]"));
}

std::string CudaBody::InsideText(bool lanes) const {
  return lanes && vectors.cut ? "if (e >= lo && e < hi) " : "";
}

ScalarId CudaBody::StoredFloat(uint32_t store) const {
  const ScalarId value = nest.stores[store].value;
  const ScalarNode& node = nest.body[value];
  const bool rounds = node.op == ScalarOp::kCast && IsHalf(node.dtype) &&
                      nest.body[node.args[0]].dtype == DType::kFloat32 &&
                      lanes_[node.args[0]];
  return rounds ? node.args[0] : value;
}

// Whether the group's additions are one instruction, or a few.
bool CudaBody::AddsWide(uint32_t index) const {
  const DType dtype = buffers[nest.stores[index].buffer].dtype;
  return vector_atomics && !vectors.cut &&
         nest.stores[index].mode == StoreMode::kAtomicAdd &&
         (dtype == DType::kFloat32 || IsHalf(dtype));
}

// What all neighbours share.
absl::Status CudaBody::Shared(const Group& group) {
  for (ScalarId id : group.nodes) {
    if (lanes_[id]) continue;
    // One answer for the group is that of its first neighbour.
    if (vectors.width > 1 && IsComparison(nest.body[id].op)) {
      for (ScalarId arg : nest.body[id].args)
        if (lanes_[arg])
          SetText(arg,
                  absl::StrCat("(long long)", Index(nest.body[arg].index[0])));
    }
    RETURN_IF_ERROR(Node(id));
  }
  return absl::OkStatus();
}

// Wide loads and rows of random numbers; one flag a node says which are done.
std::vector<bool> CudaBody::WideValues(const Group& group) {
  std::vector<bool> done(nest.body.size(), false);
  for (ScalarId id : group.nodes) {
    const ScalarNode& node = nest.body[id];
    if (!lanes_[id]) continue;
    if (node.op == ScalarOp::kRandom && IsWideRandom(node)) {
      done[id] = true;
      WideRandom(id);
      continue;
    }
    if (node.op != ScalarOp::kLoad || ahead_[id]) continue;
    const bool mask_varies = !node.args.empty() && lanes_[node.args[0]];
    if (mask_varies || !IsWideAccess(buffers[node.buffer],
                                     facts.load_offset[id], vectors, facts))
      continue;
    done[id] = true;
    WideLoad(id);
  }
  return done;
}

// Declares what wide stores are gathered in: one name a store, empty for others.
std::vector<std::string> CudaBody::WideStoreNames(const Group& group) {
  std::vector<std::string> names(nest.stores.size());
  for (uint32_t s : group.stores) {
    const struct Store& store = nest.stores[s];
    const bool mask_varies = store.mask != Store::kNoMask && lanes_[store.mask];
    if (mask_varies || (IsAtomic(store.mode) && !AddsWide(s)) ||
        !IsWideAccess(buffers[store.buffer], facts.store_offset[s], vectors,
                      facts))
      continue;
    names[s] = Fresh("w");
    if (StoredFloat(s) != store.value) {
      out.Line("float ", names[s], "[", vectors.width, "] = {};");
    } else {
      out.Line("k_pack<", CTypeName(buffers[store.buffer].dtype), ", ",
               vectors.width, "> ", names[s], " = {};");
    }
  }
  return names;
}

// Whether neighbours outside of a partial group do no harm: what is computed for
// them goes nowhere, since wide stores leave them out.
bool CudaBody::MayComputeOutside(
    const Group& group, const std::vector<bool>& done,
    const std::vector<std::string>& wide_store) const {
  if (!group.then_outside) return false;
  for (ScalarId id : group.nodes) {
    if (!lanes_[id] || done[id]) continue;
    const ScalarOp op = nest.body[id].op;
    if (op == ScalarOp::kLoad
            ? !ahead_[id]
            : op == ScalarOp::kCheckIndex || op == ScalarOp::kWrapIndex) {
      return false;
    }
  }
  return std::all_of(group.stores.begin(), group.stores.end(),
                     [&](uint32_t s) { return !wide_store[s].empty(); });
}

absl::Status CudaBody::WriteGroup(const Group& group) {
  RETURN_IF_ERROR(Shared(group));
  if (vectors.width == 1) {
    RETURN_IF_ERROR(group.then(Place::kNeighbour));
    if (!group.store_if.empty() && !group.stores.empty())
      out.Open("if (", group.store_if, ")");
    for (uint32_t s : group.stores) RETURN_IF_ERROR(Store(s));
    if (!group.store_if.empty() && !group.stores.empty()) out.Close();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(group.then(Place::kBefore));
  const std::vector<bool> done = WideValues(group);
  const std::vector<std::string> wide_store = WideStoreNames(group);
  const bool guarded =
      vectors.cut && !MayComputeOutside(group, done, wide_store);
  // A whole group, nearly every one, is spared the question at each neighbour.
  const bool twice = guarded && group.nodes.size() <= most_written_twice;
  if (twice) {
    out.Open("if (lo == 0 && hi == ", vectors.width, ")");
    RETURN_IF_ERROR(Neighbours(group, done, wide_store, false));
    out.Else();
  }
  RETURN_IF_ERROR(Neighbours(group, done, wide_store, guarded));
  if (twice) out.Close();
  RETURN_IF_ERROR(group.then(Place::kBehind));
  WideStores(group, wide_store);
  return absl::OkStatus();
}

absl::Status CudaBody::Neighbours(const Group& group,
                                  const std::vector<bool>& done,
                                  const std::vector<std::string>& wide_store,
                                  bool guarded) {
  out.Line("#pragma unroll");
  out.Open("for (int e = 0; e < ", vectors.width, "; ++e)");
  if (guarded) out.Open(InsideText(true));
  in_loop_ = true;
  RETURN_IF_ERROR(Neighbour(group, done, wide_store));
  in_loop_ = false;
  if (guarded) out.Close();
  out.Close();
  return absl::OkStatus();
}

// What is done for each neighbour.
absl::Status CudaBody::Neighbour(const Group& group,
                                 const std::vector<bool>& done,
                                 const std::vector<std::string>& wide_store) {
  for (ScalarId id : group.nodes)
    if (lanes_[id] && !done[id]) RETURN_IF_ERROR(Node(id));
  RETURN_IF_ERROR(group.then(Place::kNeighbour));
  for (uint32_t s : group.stores) {
    if (!wide_store[s].empty()) {
      const ScalarId value = StoredFloat(s);
      if (value != nest.stores[s].value) {
        out.Line(wide_store[s], "[e] = ", Text(value), ";");
      } else {
        out.Line("k_put(", wide_store[s], ", e, ", Text(value), ");");
      }
      continue;
    }
    if (!group.store_if.empty()) out.Open("if (", group.store_if, ")");
    // The same for all neighbours: the first that exists writes.
    const bool once = !IsLanes(facts.store_axes[s]);
    if (once) out.Open("if (e == ", vectors.cut ? "lo" : "0", ")");
    RETURN_IF_ERROR(Store(s));
    if (once) out.Close();
    if (!group.store_if.empty()) out.Close();
  }
  return absl::OkStatus();
}

void CudaBody::WideStores(const Group& group,
                          const std::vector<std::string>& wide_store) {
  for (uint32_t s : group.stores) {
    if (wide_store[s].empty()) continue;
    const struct Store& store = nest.stores[s];
    std::string condition = group.store_if;
    if (store.mask != Store::kNoMask)
      absl::StrAppend(&condition, condition.empty() ? "" : " && ",
                      Text(store.mask));
    if (!condition.empty()) condition = absl::StrCat("if (", condition, ") ");
    const std::string to = absl::StrCat(BufferName(store.buffer), " + ",
                                        Index(facts.store_offset[s]));
    const std::string what =
        StoredFloat(s) == store.value
            ? wide_store[s]
            : absl::StrCat("k_round_", TypeEnding(buffers[store.buffer].dtype),
                           "(", wide_store[s], ")");
    if (store.mode == StoreMode::kAtomicAdd) {
      out.Line(condition, "k_atomic_add_wide_",
               TypeEnding(buffers[store.buffer].dtype), "(", to, ", ", what,
               ");");
    } else if (vectors.cut) {
      out.Line(condition, "k_store_part(", to, ", lo, hi, ", what, ");");
    } else {
      out.Line(condition, "k_store(", to, ", ", what, ");");
    }
  }
}

absl::Status CudaBody::StoreNeighbour(uint32_t store) {
  in_loop_ = vectors.width > 1;
  const absl::Status stored = Store(store);
  in_loop_ = false;
  return stored;
}

absl::Status CudaBody::Store(uint32_t index) {
  const struct Store& store = nest.stores[index];
  const DType dtype = buffers[store.buffer].dtype;
  const std::string at = absl::StrCat(BufferName(store.buffer), "[",
                                      At(facts.store_offset[index]), "]");
  const std::string guard = store.mask == Store::kNoMask
                                ? ""
                                : absl::StrCat("if (", Text(store.mask), ") ");
  if (store.mode == StoreMode::kAtomicMax ||
      store.mode == StoreMode::kAtomicMul) {
    const bool raises = store.mode == StoreMode::kAtomicMax;
    out.Line(guard, raises ? "k_atomic_max_" : "k_atomic_mul_",
             TypeEnding(dtype), "(&", at, ", ", Text(store.value), ");");
    return absl::OkStatus();
  }
  if (store.mode != StoreMode::kAtomicAdd) {
    const std::string kernel = absl::StrCat("\"", kSymbolPlaceholder, "\"");
    out.Line(guard, at, " = ", StoredText(store, Text(store.value), kernel),
             ";");
    return absl::OkStatus();
  }
  if (!IsHalf(dtype) && SizeInBytes(dtype) < 4)
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("atomic add to ", ShortName(dtype)));
  out.Line(guard, "k_atomic_add_", TypeEnding(dtype), "(&", at, ", ",
           Text(store.value), ");");
  return absl::OkStatus();
}

}  // namespace kiln

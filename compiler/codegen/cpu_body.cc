#include "compiler/codegen/cpu_body.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// One value of a lane vector as memory holds it.
std::string StoredLane(DType dtype, const std::string& lane) {
  return dtype == DType::kBool ? absl::StrCat("(", lane, " != 0)") : lane;
}

}  // namespace

std::string CpuBody::Operand(ScalarId id, bool lanes) const {
  if (!lanes || IsLanes(id)) return Text(id);
  return absl::StrCat("k_splat_", MemoryEnding(nest.body[id].dtype), "(",
                      Text(id), ")");
}

std::string CpuBody::OneLane(ScalarId id) const {
  return IsLanes(id) ? absl::StrCat(Text(id), "[l]") : Text(id);
}

std::string CpuBody::PerLane(const SymExpr& e) const {
  return Index(e, [&](Var var) -> std::string {
    if (var.kind == Var::Kind::kAxis && var.index == vector_axis)
      return absl::StrCat("(", AxisName(var.index), " + l)");
    if (var.kind == Var::Kind::kIndirect)
      return absl::StrCat(IndirectCast(var.index), OneLane(var.index));
    return "";
  });
}

void CpuBody::Define(ScalarId id, const std::string& value) {
  const DType dtype = nest.body[id].dtype;
  const std::string name = Fresh("t");
  out.Line("const ",
           IsLanes(id) ? LaneTypeName(dtype) : std::string(CTypeName(dtype)),
           " ", name, " = ", value, ";");
  SetText(id, name);
}

absl::Status CpuBody::Nodes(const std::vector<ScalarId>& nodes, bool lanes) {
  for (ScalarId id : nodes)
    if (IsLanes(id) == lanes) RETURN_IF_ERROR(Node(id));
  return absl::OkStatus();
}

absl::Status CpuBody::Stores(const std::vector<uint32_t>& stores, bool lanes) {
  for (uint32_t s : stores)
    if (IsLanes(facts.store_axes[s]) == lanes) RETURN_IF_ERROR(Store(s));
  return absl::OkStatus();
}

bool CpuBody::AnyStill(const std::vector<uint32_t>& stores) const {
  return std::any_of(stores.begin(), stores.end(),
                     [&](uint32_t s) { return !IsLanes(facts.store_axes[s]); });
}

void CpuBody::Assume(const std::vector<ScalarId>& masks) {
  assumed_ = masks;
  for (ScalarId id : masks) SetText(id, "k_splat_b(true)");
}

bool CpuBody::IsPlain(const ScalarNode& load) const {
  return load.args.empty() ||
         std::count(assumed_.begin(), assumed_.end(), load.args[0]) != 0;
}

// An operand of a range mask in one lane.
std::string CpuBody::MaskAt(ScalarId id, const std::string& at) const {
  if (!IsLanes(id)) return Text(id);
  const ScalarNode& node = nest.body[id];
  if (node.op == ScalarOp::kIndex)
    return absl::StrCat("(",
                        Index(node.index[0],
                              [&](Var var) {
                                const bool moved =
                                    var.kind == Var::Kind::kAxis &&
                                    var.index == vector_axis;
                                return moved ? absl::StrCat("(", at, ")") : "";
                              }),
                        ")");
  const char* op = node.op == ScalarOp::kAnd  ? " & "
                   : node.op == ScalarOp::kLt ? " < "
                   : node.op == ScalarOp::kLe ? " <= "
                   : node.op == ScalarOp::kGt ? " > "
                                              : " >= ";
  return absl::StrCat("(", MaskAt(node.args[0], at), op,
                      MaskAt(node.args[1], at), ")");
}

std::string CpuBody::HoldAt(const std::vector<ScalarId>& masks,
                            const std::string& at) const {
  std::string text;
  for (ScalarId id : masks)
    absl::StrAppend(&text, text.empty() ? "" : " & ", MaskAt(id, at));
  return text;
}

void CpuBody::OpenLanes(const std::string& from, const std::string& to) {
  const std::string i = AxisName(vector_axis);
  out.Open("for (long long ", i, " = ", from, "; ", i, " < ", to, "; ", i,
           " += K_LANES)");
  out.Line("const int m = (int)k_least(", to, " - ", i, ", K_LANES);");
}

std::string CpuBody::SqrtText(DType dtype, const std::string& of) const {
  return absl::StrCat("k_sqrt_", TypeEnding(dtype), "(", of, ")");
}

// The value of an index expression, or K_LANES of them a step apart.
absl::Status CpuBody::IndexValue(ScalarId id) {
  const SymExpr& index = nest.body[id].index[0];
  if (!IsLanes(id)) {
    Define(id, Index(index));
    return absl::OkStatus();
  }
  if (MotionOf(index, vector_axis, facts) == Motion::kIrregular) {
    GatherLanes(id);
    return absl::OkStatus();
  }
  const SymExpr next = index.Substitute([&](Var var) {
    const bool moved = var.kind == Var::Kind::kAxis && var.index == vector_axis;
    return moved ? SymExpr::Of(var) + 1 : SymExpr::Of(var);
  });
  Define(id, absl::StrCat("k_iota_", MemoryEnding(nest.body[id].dtype), "(",
                          Index(index), ", ", Index(next - index), ")"));
  return absl::OkStatus();
}

// An index outside is written down once, in the caller's words, and 0 takes its
// place.
void CpuBody::IndexCheck(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const bool lanes = IsLanes(id);
  std::string text = absl::StrCat(
      node.op == ScalarOp::kWrapIndex ? "k_wrap_index" : "k_check_index",
      lanes ? "_lanes(" : "(");
  for (ScalarId arg : node.args)
    absl::StrAppend(&text, Operand(arg, lanes), ", ");
  if (node.args.size() < 3)
    absl::StrAppend(&text, lanes ? "k_splat_b(true), " : "true, ");
  Define(id, absl::StrCat(text, lanes ? "m, " : "", "a.bad_data)"));
}

// How many elements the offset moves a lane, if that is a small constant; else 0.
int64_t CpuBody::StepOf(const SymExpr& offset) const {
  constexpr int64_t kMostStep = 1 << 20;
  if (MotionOf(offset, vector_axis, facts) != Motion::kStrided) return 0;
  const SymExpr next = offset.Substitute([&](Var var) {
    const bool moved = var.kind == Var::Kind::kAxis && var.index == vector_axis;
    return moved ? SymExpr::Of(var) + 1 : SymExpr::Of(var);
  });
  const SymExpr step = next - offset;
  if (!step.is_constant() || std::abs(step.constant()) > kMostStep) return 0;
  return step.constant();
}

// A load whose lanes are no neighbours.
void CpuBody::LoadApart(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const int64_t step = StepOf(facts.load_offset[id]);
  if (step == 0 || node.dtype == DType::kBool) {
    GatherLanes(id);
    return;
  }
  const absl::string_view ending = MemoryEnding(node.dtype);
  const std::string from = absl::StrCat(BufferName(node.buffer), " + ",
                                        Index(facts.load_offset[id]));
  if (IsPlain(node)) {
    Define(id,
           step == 2
               ? absl::StrCat("k_load_pairs<kv_", ending, ">(", from, ", m)")
               : absl::StrCat("k_load_strided<kv_", ending, ">(", from, ", ",
                              step, ", k_first_lanes(m))"));
    return;
  }
  const std::string mask = Operand(node.args[0], true);
  Define(id, absl::StrCat("k_where(", mask, ", k_load_strided<kv_", ending,
                          ">(", from, ", ", step, ", k_bits(", mask,
                          ") & k_first_lanes(m)), k_splat_", ending, "(",
                          ConstantText(node.dtype, node.number), "))"));
}

void CpuBody::GatherLanes(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const std::string name = Fresh("t");
  const std::string cells = absl::StrCat("g", name.substr(1));
  out.Line(CTypeName(node.dtype), " ", cells, "[K_LANES] = {};");
  std::string value;
  if (node.op == ScalarOp::kIndex) {
    value = PerLane(node.index[0]);
  } else {
    value = absl::StrCat(BufferName(node.buffer), "[",
                         PerLane(facts.load_offset[id]), "]");
    if (!IsPlain(node))
      value = absl::StrCat(OneLane(node.args[0]), " ? ", value, " : ",
                           ConstantText(node.dtype, node.number));
  }
  out.Line("for (int l = 0; l < m; ++l) ", cells, "[l] = ", value, ";");
  out.Line("const ", LaneTypeName(node.dtype), " ", name, " = k_load_",
           MemoryEnding(node.dtype), "(", cells, ", K_LANES);");
  SetText(id, name);
}

absl::Status CpuBody::Load(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const SymExpr& offset = facts.load_offset[id];
  const std::string pointer = BufferName(node.buffer);
  const bool masked = !IsPlain(node);
  const std::string fill = ConstantText(node.dtype, node.number);
  if (!IsLanes(id)) {
    const std::string cell = absl::StrCat(pointer, "[", Index(offset), "]");
    Define(id, masked
                   ? absl::StrCat(Text(node.args[0]), " ? ", cell, " : ", fill)
                   : cell);
    return absl::OkStatus();
  }
  const absl::string_view ending = MemoryEnding(node.dtype);
  const std::string from = absl::StrCat(pointer, " + ", Index(offset));
  if (MotionOf(offset, vector_axis, facts) != Motion::kContiguous) {
    LoadApart(id);
    return absl::OkStatus();
  }
  const std::string whole = absl::StrCat("k_load_", ending, "(", from, ", m)");
  if (!masked) {
    Define(id, whole);
  } else if (!IsLanes(node.args[0])) {
    Define(id, absl::StrCat(Text(node.args[0]), " ? ", whole, " : k_splat_",
                            ending, "(", fill, ")"));
  } else {
    Define(id, absl::StrCat("k_load_masked_", ending, "(", from, ", m, ",
                            Text(node.args[0]), ", ", fill, ")"));
  }
  return absl::OkStatus();
}

absl::Status CpuBody::Store(uint32_t index) {
  const struct Store& store = nest.stores[index];
  if (store.mode == StoreMode::kSum)
    return MakeError(ErrorReason::kUnsupportedOp,
                     "sums over stretches of rows in a CPU kernel");
  const SymExpr& offset = facts.store_offset[index];
  const std::string pointer = BufferName(store.buffer);
  const DType dtype = buffers[store.buffer].dtype;
  const bool masked = store.mask != Store::kNoMask;
  const bool lanes = IsLanes(facts.store_axes[index]);
  const bool whole =
      lanes && MotionOf(offset, vector_axis, facts) == Motion::kContiguous &&
      !(masked && IsLanes(store.mask)) &&
      !(store.mode == StoreMode::kAtomicAdd && IsHalf(dtype));
  if (masked && (whole || !lanes)) out.Open("if (", Text(store.mask), ")");
  if (whole) {
    const std::string to = absl::StrCat(pointer, " + ", Index(offset));
    std::string value = Operand(store.value, true);
    const absl::string_view ending = MemoryEnding(dtype);
    if (store.mode == StoreMode::kAtomicMax)
      value = absl::StrCat("k_maximum_", ending, "(k_load_", ending, "(", to,
                           ", m), ", value, ")");
    if (store.mode == StoreMode::kAtomicAdd)
      value = absl::StrCat("k_load_", ending, "(", to, ", m) + ", value);
    if (store.mode == StoreMode::kAtomicMul)
      value = absl::StrCat("k_load_", ending, "(", to, ", m) * ", value);
    out.Line("k_store_", ending, "(", to, ", ", value, ", m);");
  } else if (lanes) {
    out.Open("for (int l = 0; l < m; ++l)");
    if (masked) out.Open("if (", OneLane(store.mask), ")");
    UpdateCell(index, true, PerLane(offset));
    if (masked) out.Close();
    out.Close();
  } else {
    UpdateCell(index, false, Index(offset));
  }
  if (masked && (whole || !lanes)) out.Close();
  return absl::OkStatus();
}

// One cell: set, added to, raised or multiplied.
void CpuBody::UpdateCell(uint32_t index, bool lanes,
                         const std::string& offset) {
  const struct Store& store = nest.stores[index];
  const DType dtype = buffers[store.buffer].dtype;
  const std::string cell =
      absl::StrCat(BufferName(store.buffer), "[", offset, "]");
  const bool lane = lanes && IsLanes(store.value);
  const std::string value =
      lane ? StoredLane(dtype, OneLane(store.value)) : Text(store.value);
  if (store.mode == StoreMode::kSet) {
    out.Line(cell, " = ", StoredText(store, value, "a.bad_data"), ";");
  } else if (store.mode == StoreMode::kAtomicMax) {
    out.Line("if (", cell, " < ", value, ") ", cell, " = ", value, ";");
  } else if (store.mode == StoreMode::kAtomicMul) {
    out.Line(cell, " *= ", value, ";");
  } else if (IsHalf(dtype)) {
    const absl::string_view e = TypeEnding(dtype);
    out.Line(cell, " = k_f32_to_", e, "(k_", e, "_to_f32(", cell, ") + k_", e,
             "_to_f32(", value, "));");
  } else if (dtype == DType::kBool) {
    out.Line(cell, " = ", cell, " | ", value, ";");
  } else {
    out.Line(cell, " += ", value, ";");
  }
}

}  // namespace kiln

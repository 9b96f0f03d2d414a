#include "compiler/codegen/cuda_body.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The widest single access to global memory up to sm_90 (CUDA C++ Programming
// Guide, "Device Memory Accesses").
constexpr int64_t kMaxAccessBytes = 16;

// Elements that one Philox counter gives numbers to.
constexpr int kRandomQuad = 4;

bool IsGathered(const ScalarNode& node) { return node.op == ScalarOp::kLoad; }

}  // namespace

// Whether the group's elements may be moved in accesses of up to 16 bytes.
bool CudaBody::IsWide(BufferId id, const SymExpr& offset) const {
  const Buffer& buffer = buffers[id];
  const int64_t bytes =
      std::min(width * SizeInBytes(buffer.dtype), kMaxAccessBytes);
  return MotionOf(offset, vector_axis, facts) == Motion::kContiguous &&
         RestIsMultiple(offset, vector_axis, width) &&
         buffer.alignment_bytes % bytes == 0;
}

// Whether the group's numbers are those of whole counters.
bool CudaBody::IsWideRandom(const ScalarNode& node) const {
  const ScalarNode& index = nest.body[node.args[1]];
  return !IsLanes(node.args[0]) && index.op == ScalarOp::kIndex &&
         width % kRandomQuad == 0 &&
         MotionOf(index.index[0], vector_axis, facts) == Motion::kContiguous &&
         RestIsMultiple(index.index[0], vector_axis, kRandomQuad);
}

std::string CudaBody::At(const SymExpr& e) const {
  if (!in_loop_) return Index(e);
  return Index(e, [&](Var var) -> std::string {
    if (var.kind == Var::Kind::kAxis && var.index == vector_axis)
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

absl::Status CudaBody::IndexValue(ScalarId id) {
  Define(id, At(nest.body[id].index[0]));
  return absl::OkStatus();
}

// The text that the device prints when it stops the grid.
void CudaBody::IndexCheck(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const bool wrap = node.op == ScalarOp::kWrapIndex;
  const ScalarNode& size = nest.body[node.args[1]];
  const std::string below = size.op == ScalarOp::kConstant
                                ? absl::StrCat(size.number.i)
                                : Index(size.index[0]);
  std::string text = absl::StrCat(wrap ? "k_wrap_index(" : "k_check_index(");
  for (ScalarId arg : node.args) absl::StrAppend(&text, Text(arg), ", ");
  if (node.args.size() < 3) absl::StrAppend(&text, "true, ");
  Define(id, absl::StrCat(text, "\"index out of bounds: ", wrap ? "-" : "",
                          wrap ? below : "0", " <= index < ", below, "\", \"",
                          kSymbolPlaceholder, "\")"));
}

absl::Status CudaBody::Load(ScalarId id) {
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
  out.Line(CTypeName(node.dtype), " ", name, "[", width, "];");
  const std::string from = absl::StrCat(BufferName(node.buffer), " + ",
                                        Index(facts.load_offset[id]));
  const std::string load =
      cut ? absl::StrCat("k_load_part(", from, ", m, ", name, ");")
          : absl::StrCat("k_load(", from, ", ", name, ");");
  if (node.args.empty()) {
    out.Line(load);
  } else {
    out.Line("if (", Text(node.args[0]), ") ", load);
    out.Line("else k_fill(", name, ", ", ConstantText(node.dtype, node.number),
             ");");
  }
  SetText(id, absl::StrCat(name, "[e]"));
}

void CudaBody::WideRandom(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  const std::string name = Fresh("l");
  out.Line("float ", name, "[", width, "];");
  out.Line("k_random_row(", Text(node.args[0]), ", ",
           Index(nest.body[node.args[1]].index[0]), ", ", StreamName(id), ", ",
           name, ");");
  SetText(id, absl::StrCat(name, "[e]"));
}

absl::Status CudaBody::WriteGroup(const Group& group) {
  for (ScalarId id : group.nodes)
    if (!IsLanes(id)) RETURN_IF_ERROR(Node(id));
  RETURN_IF_ERROR(group.then(false));
  if (width == 1 || vector_axis == kNoAxis) {
    if (!group.store_if.empty() && !group.stores.empty())
      out.Open("if (", group.store_if, ")");
    for (uint32_t s : group.stores) RETURN_IF_ERROR(Store(s));
    if (!group.store_if.empty() && !group.stores.empty()) out.Close();
    return absl::OkStatus();
  }

  std::vector<bool> wide(nest.body.size(), false);
  for (ScalarId id : group.nodes) {
    const ScalarNode& node = nest.body[id];
    if (!IsLanes(id)) continue;
    if (node.op == ScalarOp::kRandom && IsWideRandom(node)) {
      wide[id] = true;
      WideRandom(id);
      continue;
    }
    if (!IsGathered(node)) continue;
    const bool mask_varies = !node.args.empty() && IsLanes(node.args[0]);
    if (mask_varies || !IsWide(node.buffer, facts.load_offset[id])) continue;
    wide[id] = true;
    WideLoad(id);
  }
  std::vector<std::string> wide_store(nest.stores.size());
  for (uint32_t s : group.stores) {
    const struct Store& store = nest.stores[s];
    const bool mask_varies =
        store.mask != Store::kNoMask && IsLanes(store.mask);
    if (mask_varies || store.mode != StoreMode::kSet ||
        !IsWide(store.buffer, facts.store_offset[s]))
      continue;
    wide_store[s] = Fresh("w");
    out.Line(CTypeName(buffers[store.buffer].dtype), " ", wide_store[s], "[",
             width, "];");
  }

  out.Line("#pragma unroll");
  out.Open("for (int e = 0; e < ", width, "; ++e)");
  if (cut) out.Open("if (e < m)");
  in_loop_ = true;
  RETURN_IF_ERROR(Neighbour(group, wide, wide_store));
  in_loop_ = false;
  if (cut) out.Close();
  out.Close();
  WideStores(group, wide_store);
  return absl::OkStatus();
}

// What is done for each neighbour.
absl::Status CudaBody::Neighbour(const Group& group,
                                 const std::vector<bool>& wide,
                                 const std::vector<std::string>& wide_store) {
  for (ScalarId id : group.nodes)
    if (IsLanes(id) && !wide[id]) RETURN_IF_ERROR(Node(id));
  RETURN_IF_ERROR(group.then(true));
  for (uint32_t s : group.stores) {
    if (!wide_store[s].empty()) {
      out.Line(wide_store[s], "[e] = ", Text(nest.stores[s].value), ";");
      continue;
    }
    if (!group.store_if.empty()) out.Open("if (", group.store_if, ")");
    // The same for all neighbours: the first writes.
    const bool once = !IsLanes(facts.store_axes[s]);
    if (once) out.Open("if (e == 0)");
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
    if (cut) {
      out.Line(condition, "k_store_part(", to, ", m, ", wide_store[s], ");");
    } else {
      out.Line(condition, "k_store(", to, ", ", wide_store[s], ");");
    }
  }
}

absl::Status CudaBody::Store(uint32_t index) {
  const struct Store& store = nest.stores[index];
  const DType dtype = buffers[store.buffer].dtype;
  const std::string at = absl::StrCat(BufferName(store.buffer), "[",
                                      At(facts.store_offset[index]), "]");
  const std::string guard = store.mask == Store::kNoMask
                                ? ""
                                : absl::StrCat("if (", Text(store.mask), ") ");
  if (store.mode == StoreMode::kSet) {
    out.Line(guard, at, " = ", Text(store.value), ";");
    return absl::OkStatus();
  }
  if (!IsHalf(dtype) && SizeInBytes(dtype) < 4)
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("atomic add to ", ShortName(dtype)));
  out.Line(guard, "k_atomic_add_", TypeEnding(dtype), "(&", at, ", ",
           Text(store.value), ");");
  return absl::OkStatus();
}

bool IsTupleReduction(ReduceOp op) {
  return op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
}

std::string TupleStepName(const ScalarNode& reduce) {
  return absl::StrCat(
      reduce.reduce == ReduceOp::kArgMax ? "k_argmax_" : "k_argmin_",
      TypeEnding(reduce.dtype));
}

absl::StatusOr<std::string> JoinerText(const ScalarNode& reduce) {
  const absl::string_view type = CTypeName(reduce.dtype);
  if (IsTupleReduction(reduce.reduce))
    return absl::StrCat("[](k_pair<", type, "> a, k_pair<", type, "> b) { ",
                        TupleStepName(reduce),
                        "(a.value, a.index, b.value, b.index); return a; }");
  ASSIGN_OR_RETURN(const std::string next,
                   CombineText(reduce.reduce, reduce.dtype, "a", "b"));
  return absl::StrCat("[](", type, " a, ", type, " b) { return (", type, ")(",
                      next, "); }");
}

}  // namespace kiln

#include "compiler/codegen/kernel_body.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/index_text.h"
#include "compiler/sym/sym_simplify.h"
#include "proto/base/status.h"

namespace kiln {

std::string KernelBody::SymbolName(uint32_t symbol) const {
  const auto& symbols = facts.symbols;
  const auto it = std::find(symbols.begin(), symbols.end(), symbol);
  return absl::StrCat("s", it - symbols.begin());
}

std::string KernelBody::IndirectCast(ScalarId id) const {
  if (facts.index32) return "(int)";
  return nest.body[id].dtype == DType::kInt64 ? "" : "(long long)";
}

std::string KernelBody::Index(
    const SymExpr& e, absl::FunctionRef<std::string(Var)> rename) const {
  const auto name_of = [&](Var var) -> std::string {
    std::string other = rename(var);
    if (!other.empty()) return other;
    switch (var.kind) {
      case Var::Kind::kSymbol:
        return SymbolName(var.index);
      case Var::Kind::kAxis:
        return AxisName(var.index);
      case Var::Kind::kIndirect:
        return absl::StrCat(IndirectCast(var.index), Text(var.index));
    }
    return "";
  };
  const auto not_negative = [&](const SymExpr& part) {
    return ProveNonNegative(part, {shapes, facts.extents});
  };
  return IndexText(e, {name_of, not_negative, facts.index32});
}

std::string KernelBody::StreamName(ScalarId random) const {
  size_t before = facts.symbols.size();
  for (ScalarId id = 0; id < random; ++id)
    if (nest.body[id].op == ScalarOp::kRandom) ++before;
  return absl::StrCat("(unsigned long long)s", before);
}

std::string KernelBody::StoredText(const Store& store, const std::string& value,
                                   absl::string_view told) const {
  const std::string& text = buffers[store.buffer].assertion;
  if (text.empty()) return value;
  return absl::StrCat("k_assert(", value, ", \"", absl::CEscape(text), "\", ",
                      told, ")");
}

SymExpr KernelBody::ReducedPosition() const {
  SymExpr position = 0;
  for (uint32_t axis = facts.num_outer; axis < facts.num_axes; ++axis)
    position = position * facts.extents[axis] + SymExpr::Axis(axis);
  return position;
}

absl::Status KernelBody::Node(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  switch (node.op) {
    case ScalarOp::kConstant:
      SetText(id, ConstantText(node.dtype, node.number));
      return absl::OkStatus();
    case ScalarOp::kSeed:
      SetText(id, "seed");
      return absl::OkStatus();
    case ScalarOp::kLoad:
      return Load(id);
    case ScalarOp::kIndex:
      return IndexValue(id);
    case ScalarOp::kCheckIndex:
    case ScalarOp::kWrapIndex:
      IndexCheck(id);
      return absl::OkStatus();
    case ScalarOp::kRandom:
      Define(id, absl::StrCat("k_random_f32(", Text(node.args[0]), ", ",
                              Argument(node.args[1], id), ", ", StreamName(id),
                              ")"));
      return absl::OkStatus();
    case ScalarOp::kReduce:
    case ScalarOp::kReduceResult:
    case ScalarOp::kScan:
    case ScalarOp::kSort:
    case ScalarOp::kTally:
      return absl::InternalError(
          absl::StrCat("node ", id, ": a reduction among plain values"));
    default:
      return Operation(id);
  }
}

absl::Status KernelBody::Operation(ScalarId id) {
  const ScalarNode& node = nest.body[id];
  absl::InlinedVector<std::string, 3> args;
  for (ScalarId arg : node.args) args.push_back(Argument(arg, id));
  const DType from =
      nest.body[node.args[node.op == ScalarOp::kWhere ? 1 : 0]].dtype;
  if (node.op == ScalarOp::kPow) {
    const std::string power = PowerText(node, args[0], SqrtText(from, args[0]));
    if (!power.empty()) {
      Define(id, power);
      return absl::OkStatus();
    }
  }
  const std::string fused = FusedText(id);
  if (!fused.empty()) {
    Define(id, fused);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text,
                   OperationText(node, from, args, DialectOf(id)));
  Define(id, text);
  return absl::OkStatus();
}

std::string KernelBody::PowerText(const ScalarNode& node,
                                  const std::string& base,
                                  const std::string& sqrt_of_base) const {
  const ScalarNode& exponent = nest.body[node.args[1]];
  if (exponent.op != ScalarOp::kConstant) return "";
  const double n = IsFloat(exponent.dtype)
                       ? exponent.number.f
                       : static_cast<double>(exponent.number.i);
  if (n == 1) return base;
  if (n == 2) return absl::StrCat("(", base, " * ", base, ")");
  if (n == 3) return absl::StrCat("(", base, " * ", base, " * ", base, ")");
  if (!IsFloat(node.dtype)) return "";
  if (n == 0.5) return sqrt_of_base;
  const char* one = node.dtype == DType::kFloat64 ? "1.0" : "1.0f";
  if (n == -1) return absl::StrCat("(", one, " / ", base, ")");
  if (n == -2) return absl::StrCat("(", one, " / (", base, " * ", base, "))");
  if (n == -0.5) return absl::StrCat("(", one, " / ", sqrt_of_base, ")");
  return "";
}

}  // namespace kiln

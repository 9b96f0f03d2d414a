#include "compiler/codegen/kernel_body.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/index_text.h"
#include "compiler/sym/sym_simplify.h"

namespace kiln {

std::string KernelBody::SymbolName(uint32_t symbol) const {
  const auto& symbols = facts.symbols;
  const auto it = std::find(symbols.begin(), symbols.end(), symbol);
  return absl::StrCat("s", it - symbols.begin());
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
        return facts.index32 ? absl::StrCat("(int)", Text(var.index))
                             : Text(var.index);
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

SymExpr KernelBody::ReducedPosition() const {
  SymExpr position = 0;
  for (uint32_t axis = facts.num_outer; axis < facts.num_axes; ++axis)
    position = position * facts.extents[axis] + SymExpr::Axis(axis);
  return position;
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

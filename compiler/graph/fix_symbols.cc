#include "compiler/graph/fix_symbols.h"

#include <map>
#include <utility>
#include <variant>

namespace kiln {
namespace {

// What to write in place of symbols. No key occurs in a value.
class Fixed {
 public:
  explicit Fixed(const ShapeEnv& shapes) : shapes_(shapes) {
    for (const Guard& guard : shapes.guards()) {
      if (guard.op != GuardOp::kEq) continue;
      const SymExpr left = Write(guard.left), right = Write(guard.right);
      if (!Replace(right, left)) Replace(left, right);
    }
  }

  SymExpr Write(const SymExpr& e) const {
    if (e.is_constant() || values_.empty()) return e;
    return e.Substitute([this](Var v) {
      const auto found =
          v.kind == Var::Kind::kSymbol ? values_.find(v.index) : values_.end();
      return found == values_.end() ? SymExpr::Of(v) : found->second;
    });
  }

  // An expression may be 1 where none of its symbols is a number.
  DimVector WriteSizes(const DimVector& sizes) const {
    DimVector out;
    for (const SymExpr& e : sizes) {
      out.push_back(shapes_.KnownOne(e) ? SymExpr(1) : Write(e));
    }
    return out;
  }

  DimVector WriteStrides(const DimVector& strides) const {
    DimVector out;
    for (const SymExpr& e : strides) out.push_back(Write(e));
    return out;
  }

 private:
  // `value` for `from`, when that is a symbol of which `value` is free.
  bool Replace(const SymExpr& from, const SymExpr& value) {
    Var var;
    if (!from.AsVar(&var) || value.DependsOn(var)) return false;
    for (auto& [symbol, other] : values_) {
      other = other.Substitute(
          [&](Var v) { return v == var ? value : SymExpr::Of(v); });
    }
    values_[var.index] = value;
    return true;
  }

  const ShapeEnv& shapes_;
  std::map<uint32_t, SymExpr> values_;
};

bool FixArgument(const ShapeEnv& shapes, Argument& arg) {
  if (arg.is_list()) {
    bool any = false;
    for (Argument& item : std::get<Argument::List>(arg.v)) {
      any = FixArgument(shapes, item) || any;
    }
    return any;
  }
  const auto* e = std::get_if<SymExpr>(&arg.v);
  if (e == nullptr || e->is_constant()) return false;
  const ValueRange range = shapes.Range(*e);
  if (range.min != range.max) return false;
  arg = SymExpr(range.min);
  return true;
}

}  // namespace

std::optional<Graph> FixSymbols(const Graph& graph) {
  if (graph.shapes.symbols.empty()) return std::nullopt;
  const Fixed fixed(graph.shapes);
  Graph out = graph;
  for (uint32_t i = 0; i < out.num_values(); ++i) {
    TensorMeta meta = out.meta({i});
    meta.sizes = fixed.WriteSizes(meta.sizes);
    meta.strides = fixed.WriteStrides(meta.strides);
    meta.offset = fixed.Write(meta.offset);
    out.SetMeta({i}, std::move(meta));
  }
  for (GraphOutput& output : out.outputs) {
    output.strides = fixed.WriteStrides(output.strides);
  }
  return out;
}

bool FixArguments(const ShapeEnv& shapes, Arguments& args) {
  bool any = false;
  for (Argument& arg : args) any = FixArgument(shapes, arg) || any;
  return any;
}

}  // namespace kiln

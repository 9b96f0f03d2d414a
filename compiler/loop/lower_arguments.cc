// Reading a node's arguments, and PyTorch's promotion of types.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/graph/type_promotion.h"
#include "compiler/loop/lowering.h"

namespace kiln {

int64_t WrapDim(const Argument& dim, int rank) {
  int64_t d = dim.sym().is_constant() ? dim.sym().constant() : 0;
  if (rank == 0) rank = 1;
  if (d < 0) d += rank;
  return std::clamp<int64_t>(d, 0, rank - 1);
}

absl::InlinedVector<int64_t, 4> ConstantInts(const Argument& list) {
  absl::InlinedVector<int64_t, 4> ints;
  if (!list.is_list()) {
    if (const auto* e = std::get_if<SymExpr>(&list.v)) {
      ints.push_back(e->is_constant() ? e->constant() : 0);
    }
    return ints;
  }
  for (const Argument& item : list.list()) {
    ints.push_back(item.sym().is_constant() ? item.sym().constant() : 0);
  }
  return ints;
}

std::optional<double> LiteralOf(const Argument& number) {
  if (const auto* f = std::get_if<double>(&number.v)) return *f;
  if (const auto* b = std::get_if<bool>(&number.v)) return *b ? 1 : 0;
  const auto* e = std::get_if<SymExpr>(&number.v);
  if (e == nullptr || !e->is_constant()) return std::nullopt;
  return static_cast<double>(e->constant());
}

double NodeLowering::Number(size_t i, double otherwise) const {
  if (i >= node.args.size() || arg(i).is_none()) return otherwise;
  if (const std::optional<double> literal = LiteralOf(arg(i))) return *literal;
  return static_cast<double>(g.program.shapes.Specialize(
      arg(i).sym(),
      absl::StrCat(node.op->name, " ", node.op->schema.params[i].name)));
}

bool BoolOf(const Argument& argument) {
  return LiteralOf(argument).value_or(0) != 0;
}

namespace {

int Category(DType d) { return IsFloat(d) ? 2 : IsInteger(d) ? 1 : 0; }

}  // namespace

DType PromoteArguments(const Graph& graph, absl::Span<const Argument> args) {
  // Tensors with dimensions, those without, numbers: the later ones count only
  // when their category is higher (PyTorch's type promotion).
  std::optional<DType> levels[3];
  const auto join = [](std::optional<DType>& level, DType dtype) {
    level = level.has_value() ? PromoteTypes(*level, dtype) : dtype;
  };
  for (const Argument& arg : args) {
    if (arg.is_value()) {
      const TensorMeta& m = graph.meta(arg.value());
      join(levels[m.rank() > 0 ? 0 : 1], m.dtype);
    } else if (std::holds_alternative<double>(arg.v)) {
      join(levels[2], DType::kFloat32);
    } else if (std::holds_alternative<SymExpr>(arg.v)) {
      join(levels[2], DType::kInt64);
    } else if (std::holds_alternative<bool>(arg.v)) {
      join(levels[2], DType::kBool);
    }
  }
  std::optional<DType> result;
  for (const std::optional<DType>& level : levels) {
    if (!level.has_value()) continue;
    if (!result.has_value()) {
      result = level;
    } else if (Category(*level) > Category(*result)) {
      result = PromoteTypes(*result, *level);
    }
  }
  return result.value_or(DType::kFloat32);
}

}  // namespace kiln

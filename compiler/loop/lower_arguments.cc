// Reading a node's arguments, and PyTorch's promotion of types.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/graph/type_promotion.h"
#include "compiler/loop/lowering.h"

namespace kiln {

std::optional<double> LiteralOf(const Argument& number) {
  if (const auto* f = std::get_if<double>(&number.v)) return *f;
  if (const auto* b = std::get_if<bool>(&number.v)) return *b ? 1 : 0;
  const auto* e = std::get_if<SymExpr>(&number.v);
  if (e == nullptr || !e->is_constant()) return std::nullopt;
  return static_cast<double>(e->constant());
}

namespace {

// The value of argument i's `number`. If it is symbolic, a guard fixes it at its hint.
int64_t Fixed(const NodeLowering& n, const SymExpr& number, size_t i) {
  if (number.is_constant()) return number.constant();
  const std::string origin =
      absl::StrCat(n.node.op->name, " ", n.node.op->schema.params[i].name);
  return n.g.program.shapes.Specialize(number, origin);
}

}  // namespace

double NodeLowering::Number(size_t i, double otherwise) const {
  if (i >= node.args.size() || arg(i).is_none()) return otherwise;
  if (const std::optional<double> literal = LiteralOf(arg(i))) return *literal;
  return static_cast<double>(Fixed(*this, arg(i).sym(), i));
}

ScalarId NodeLowering::Constant(BodyBuilder& body, DType type, size_t i,
                                double otherwise) const {
  const bool given = i < node.args.size();
  if (given && !IsFloat(type) && std::holds_alternative<SymExpr>(arg(i).v)) {
    return body.Int(type, Int(i));
  }
  return body.Float(type, Number(i, otherwise));
}

int64_t NodeLowering::Int(size_t i) const {
  return Fixed(*this, arg(i).sym(), i);
}

absl::InlinedVector<int64_t, 4> NodeLowering::Ints(size_t i) const {
  absl::InlinedVector<int64_t, 4> ints;
  if (const auto* one = std::get_if<SymExpr>(&arg(i).v)) {
    ints.push_back(Fixed(*this, *one, i));
  }
  if (!arg(i).is_list()) return ints;
  for (const Argument& item : arg(i).list()) {
    ints.push_back(Fixed(*this, item.sym(), i));
  }
  return ints;
}

absl::InlinedVector<size_t, 4> NodeLowering::Dims(size_t i, size_t rank) const {
  const auto size = static_cast<int64_t>(std::max<size_t>(rank, 1));
  absl::InlinedVector<size_t, 4> dims;
  for (const int64_t d : Ints(i)) {
    dims.push_back(static_cast<size_t>(
        std::clamp<int64_t>(d < 0 ? d + size : d, 0, size - 1)));
  }
  return dims;
}

bool BoolOf(const Argument& argument) {
  return LiteralOf(argument).value_or(0) != 0;
}

namespace {

int Category(DType d) { return IsFloat(d) ? 2 : IsInteger(d) ? 1 : 0; }

}  // namespace

DType PromoteArguments(const Graph& graph, absl::Span<const Argument> args) {
  // PyTorch's type promotion has three levels: tensors with dimensions, tensors without,
  // and numbers. A later level counts only if its category is higher.
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

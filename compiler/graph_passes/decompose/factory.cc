// Ranges and coordinates made of iota.

#include <string>
#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// An end of a range, in the type that steps are counted in.
ValueId End(Decomposition& d, absl::string_view name, DType type) {
  const Argument& end = d.Get(name);
  return end.is_value() ? d.e.ToDType(end.value(), type)
                        : d.e.Full({}, end, type);
}

// `steps` values from start to end: the front half counted from the start, the
// back half from the end, so that both ends are exact. Source: PyTorch's
// RangeFactories.
ValueId Linear(Decomposition& d) {
  Emitter& e = d.e;
  const DType due = d.result(0).dtype;
  const bool wide = due == DType::kFloat64 || !IsFloat(due);
  const DType type = wide ? DType::kFloat64 : DType::kFloat32;
  const int64_t steps = d.Int("steps");
  // The ends are values of the result's dtype; so are the step of floats and its
  // multiples.
  const auto end = [&](absl::string_view name) {
    return e.ToDType(End(d, name, due), type);
  };
  const ValueId first = end("start");
  const ValueId at = e.Iota(steps, DType::kInt64);
  if (steps < 2) return e.Expand(e.View(first, {1}), {SymExpr(steps)});
  const ValueId last = end("end");
  ValueId step = e.Div(e.Sub(last, first),
                       e.Full({}, static_cast<double>(steps - 1), type));
  const auto rounded = [&](ValueId v) {
    return IsHalf(due) ? e.Call("prims.round_to.default", {v, due}) : v;
  };
  step = rounded(step);
  const auto multiple = [&](ValueId count) {
    return rounded(e.Mul(step, e.ToDType(count, type)));
  };
  const ValueId front = e.Add(first, multiple(at));
  const ValueId back = e.Sub(last, multiple(e.Rsub(at, steps - 1)));
  return e.Where(e.Lt(at, steps / 2), front, back);
}

Parts Linspace(Decomposition& d) { return {Linear(d)}; }

Parts Logspace(Decomposition& d) {
  return {d.e.Call("aten.pow.Scalar", {d.Float("base"), Linear(d)})};
}

// How many of the first m numbers 1, 2, ..., C, C, C, ... (none for the
// negative) add up to: T(m) = c (c + 1) / 2 + (m - c) C, c = m within [0, C].
ValueId Triangle(Emitter& e, ValueId m, int64_t columns) {
  const ValueId c = e.Call("aten.clamp.default", {m, 0, columns});
  const ValueId half = e.Call("aten.div.Scalar_mode",
                              {e.Mul(c, e.Add(c, 1)), 2, std::string("floor")});
  const ValueId more = e.Call("aten.clamp_min.default", {e.Sub(m, columns), 0});
  return e.Add(half, e.Mul(more, columns));
}

// The coordinates of a triangle, row by row. starts[r] is how many stand in
// the rows before r: an element's row is the last that starts at or before it.
template <bool kLower>
Parts TriangleIndices(Decomposition& d) {
  static const OpDef& kIndex = KnownOp("aten.index.Tensor");
  Emitter& e = d.e;
  const int64_t rows = d.Int("row"), columns = d.Int("col");
  const int64_t offset = d.Int("offset");
  const SymExpr count = d.result(0).sizes[1];
  if (count.Is(0)) return {e.Full({2, 0}, 0, DType::kInt64)};
  const auto before = [&](ValueId row) {
    // Rows below the diagonal are filled from the left.
    const int64_t shift = kLower ? offset : offset - 1;
    const ValueId filled =
        e.Sub(Triangle(e, e.Add(row, shift), columns),
              Triangle(e, e.Full({}, shift, DType::kInt64), columns));
    return kLower ? filled : e.Sub(e.Mul(row, columns), filled);
  };
  const ValueId starts = before(e.Iota(rows, DType::kInt64));
  const ValueId at = e.Iota(count, DType::kInt64);
  const ValueId row =
      e.Sub(e.Sum(e.Le(starts, e.Unsqueeze(at, 1)), {1}, Keep::kNo), 1);
  ValueId column = e.Sub(at, e.Call(kIndex, {starts, Argument::List{row}}));
  if (!kLower) {
    column = e.Add(
        column, e.Call("aten.clamp.default", {e.Add(row, offset), 0, columns}));
  }
  Argument::List both;
  both.emplace_back(e.Unsqueeze(row, 0));
  both.emplace_back(e.Unsqueeze(column, 0));
  return {e.Call("aten.cat.default", {std::move(both), 0})};
}

constexpr DecomposeRow kRows[] = {
    {"aten.linspace.default", Linspace},
    {"aten.linspace.Tensor_Tensor", Linspace},
    {"aten.linspace.Tensor_Scalar", Linspace},
    {"aten.linspace.Scalar_Tensor", Linspace},
    {"aten.logspace.default", Logspace},
    {"aten.logspace.Tensor_Tensor", Logspace},
    {"aten.logspace.Tensor_Scalar", Logspace},
    {"aten.logspace.Scalar_Tensor", Logspace},
    {"aten.tril_indices.default", TriangleIndices<true>},
    {"aten.triu_indices.default", TriangleIndices<false>},
};

}  // namespace

absl::Span<const DecomposeRow> FactoryDecompositions() { return kRows; }

}  // namespace kiln

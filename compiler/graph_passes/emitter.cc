#include "compiler/graph_passes/emitter.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_table.h"

namespace kiln {
namespace {

// The operators of the formulas, looked up once a process.
struct Words {
#define KILN_WORD(field, name) const OpDef& field = KnownOp(name)
  KILN_WORD(convert, "prims.convert_element_type.default");
  KILN_WORD(add, "aten.add.Tensor");
  KILN_WORD(sub, "aten.sub.Tensor");
  KILN_WORD(rsub, "aten.rsub.Tensor");
  KILN_WORD(mul, "aten.mul.Tensor");
  KILN_WORD(div, "aten.div.Tensor");
  KILN_WORD(pow, "aten.pow.Tensor_Scalar");
  KILN_WORD(neg, "aten.neg.default");
  KILN_WORD(abs, "aten.abs.default");
  KILN_WORD(exp, "aten.exp.default");
  KILN_WORD(log, "aten.log.default");
  KILN_WORD(log1p, "aten.log1p.default");
  KILN_WORD(expm1, "aten.expm1.default");
  KILN_WORD(sqrt, "aten.sqrt.default");
  KILN_WORD(rsqrt, "aten.rsqrt.default");
  KILN_WORD(tanh, "aten.tanh.default");
  KILN_WORD(sigmoid, "aten.sigmoid.default");
  KILN_WORD(erf, "aten.erf.default");
  KILN_WORD(maximum, "aten.maximum.default");
  KILN_WORD(clamp_min, "aten.clamp_min.default");
  KILN_WORD(clamp_max, "aten.clamp_max.default");
  KILN_WORD(eq_scalar, "aten.eq.Scalar");
  KILN_WORD(eq, "aten.eq.Tensor");
  KILN_WORD(ne_scalar, "aten.ne.Scalar");
  KILN_WORD(ne, "aten.ne.Tensor");
  KILN_WORD(lt_scalar, "aten.lt.Scalar");
  KILN_WORD(lt, "aten.lt.Tensor");
  KILN_WORD(le_scalar, "aten.le.Scalar");
  KILN_WORD(le, "aten.le.Tensor");
  KILN_WORD(gt_scalar, "aten.gt.Scalar");
  KILN_WORD(gt, "aten.gt.Tensor");
  KILN_WORD(ge_scalar, "aten.ge.Scalar");
  KILN_WORD(ge, "aten.ge.Tensor");
  KILN_WORD(logical_and, "aten.logical_and.default");
  KILN_WORD(logical_not, "aten.logical_not.default");
  KILN_WORD(where, "aten.where.self");
  KILN_WORD(sum, "aten.sum.dim_IntList");
  KILN_WORD(amax, "aten.amax.default");
  KILN_WORD(amin, "aten.amin.default");
  KILN_WORD(view, "aten.view.default");
  KILN_WORD(permute, "aten.permute.default");
  KILN_WORD(transpose, "aten.transpose.int");
  KILN_WORD(unsqueeze, "aten.unsqueeze.default");
  KILN_WORD(squeeze, "aten.squeeze.dims");
  KILN_WORD(expand, "aten.expand.default");
  KILN_WORD(slice, "aten.slice.Tensor");
  KILN_WORD(select, "aten.select.int");
  KILN_WORD(unsafe_index, "aten._unsafe_index.Tensor");
  KILN_WORD(gather, "aten.gather.default");
  KILN_WORD(clone, "aten.clone.default");
  KILN_WORD(full, "aten.full.default");
  KILN_WORD(iota, "prims.iota.default");
  KILN_WORD(mm, "aten.mm.default");
  KILN_WORD(bmm, "aten.bmm.default");
#undef KILN_WORD
};

const Words& W() {
  static const Words* const kWords = new Words();
  return *kWords;
}

}  // namespace

Argument ListArgument(absl::Span<const int64_t> dims) {
  Argument::List list;
  list.reserve(dims.size());
  for (int64_t d : dims) list.emplace_back(d);
  return Argument(std::move(list));
}

Argument ListArgument(const DimVector& sizes) {
  Argument::List list;
  list.reserve(sizes.size());
  for (const SymExpr& e : sizes) list.emplace_back(e);
  return Argument(std::move(list));
}

absl::InlinedVector<ValueId, 1> Emitter::CallAll(const OpDef& op, Args args) {
  if (!status_.ok()) return {Broken()};
  auto results = graph_.AddNode(op, std::move(args));
  if (results.ok()) return *std::move(results);
  Fail(results.status());
  return {Broken()};
}

ValueId Emitter::Call(const OpDef& op, Args args) {
  return CallAll(op, std::move(args)).front();
}

ValueId Emitter::Call(absl::string_view op, Args args) {
  return Call(KnownOp(op), std::move(args));
}

ValueId Emitter::ToDType(ValueId v, DType to) {
  if (dtype(v) == to) return v;
  return Call(W().convert, {v, to});
}

ValueId Emitter::Compute(ValueId v) {
  return dtype(v) == DType::kFloat64 ? v : ToDType(v, DType::kFloat32);
}

ValueId Emitter::Add(ValueId a, Operand b) { return Call(W().add, {a, b}); }
ValueId Emitter::Sub(ValueId a, Operand b) { return Call(W().sub, {a, b}); }
ValueId Emitter::Rsub(ValueId a, Operand b) { return Call(W().rsub, {a, b}); }
ValueId Emitter::Mul(ValueId a, Operand b) { return Call(W().mul, {a, b}); }
ValueId Emitter::Div(ValueId a, Operand b) { return Call(W().div, {a, b}); }
ValueId Emitter::Pow(ValueId a, double exponent) {
  return Call(W().pow, {a, exponent});
}
ValueId Emitter::Neg(ValueId a) { return Call(W().neg, {a}); }
ValueId Emitter::Abs(ValueId a) { return Call(W().abs, {a}); }
ValueId Emitter::Exp(ValueId a) { return Call(W().exp, {a}); }
ValueId Emitter::Log(ValueId a) { return Call(W().log, {a}); }
ValueId Emitter::Log1p(ValueId a) { return Call(W().log1p, {a}); }
ValueId Emitter::Expm1(ValueId a) { return Call(W().expm1, {a}); }
ValueId Emitter::Sqrt(ValueId a) { return Call(W().sqrt, {a}); }
ValueId Emitter::Rsqrt(ValueId a) { return Call(W().rsqrt, {a}); }
ValueId Emitter::Tanh(ValueId a) { return Call(W().tanh, {a}); }
ValueId Emitter::Sigmoid(ValueId a) { return Call(W().sigmoid, {a}); }
ValueId Emitter::Erf(ValueId a) { return Call(W().erf, {a}); }
ValueId Emitter::Maximum(ValueId a, ValueId b) {
  return Call(W().maximum, {a, b});
}
ValueId Emitter::ClampMin(ValueId a, double least) {
  return Call(W().clamp_min, {a, least});
}
ValueId Emitter::ClampMax(ValueId a, double most) {
  return Call(W().clamp_max, {a, most});
}

ValueId Emitter::Eq(ValueId a, Operand b) {
  return Call(b.is_value() ? W().eq : W().eq_scalar, {a, b});
}
ValueId Emitter::Ne(ValueId a, Operand b) {
  return Call(b.is_value() ? W().ne : W().ne_scalar, {a, b});
}
ValueId Emitter::Lt(ValueId a, Operand b) {
  return Call(b.is_value() ? W().lt : W().lt_scalar, {a, b});
}
ValueId Emitter::Le(ValueId a, Operand b) {
  return Call(b.is_value() ? W().le : W().le_scalar, {a, b});
}
ValueId Emitter::Gt(ValueId a, Operand b) {
  return Call(b.is_value() ? W().gt : W().gt_scalar, {a, b});
}
ValueId Emitter::Ge(ValueId a, Operand b) {
  return Call(b.is_value() ? W().ge : W().ge_scalar, {a, b});
}
ValueId Emitter::And(ValueId a, ValueId b) {
  return Call(W().logical_and, {a, b});
}
ValueId Emitter::Not(ValueId a) { return Call(W().logical_not, {a}); }

ValueId Emitter::Where(ValueId condition, ValueId yes, ValueId no) {
  return Call(W().where, {condition, yes, no});
}
ValueId Emitter::Where(ValueId condition, ValueId yes, double no) {
  return Where(condition, yes, Full({}, no, dtype(yes)));
}
ValueId Emitter::Where(ValueId condition, double yes, ValueId no) {
  return Where(condition, Full({}, yes, dtype(no)), no);
}

ValueId Emitter::Sum(ValueId v, Dims dims, Keep keep) {
  if (dims.empty()) return v;
  return Call(W().sum, {v, ListArgument(dims), keep == Keep::kYes});
}
ValueId Emitter::Amax(ValueId v, Dims dims, Keep keep) {
  if (dims.empty()) return v;
  return Call(W().amax, {v, ListArgument(dims), keep == Keep::kYes});
}
ValueId Emitter::Amin(ValueId v, Dims dims, Keep keep) {
  if (dims.empty()) return v;
  return Call(W().amin, {v, ListArgument(dims), keep == Keep::kYes});
}
ValueId Emitter::Mean(ValueId v, Dims dims, Keep keep) {
  return Div(Sum(v, dims, keep), Count(v, dims));
}

SymExpr Emitter::Count(ValueId v, Dims dims) const {
  SymExpr count = 1;
  for (int64_t d : dims) {
    count *= meta(v).sizes[d < 0 ? d + meta(v).rank() : d];
  }
  return count;
}

ValueId Emitter::View(ValueId v, const DimVector& sizes) {
  if (meta(v).sizes == sizes) return v;
  return Call(W().view, {v, ListArgument(sizes)});
}

ValueId Emitter::Reshape(ValueId v, const DimVector& sizes) {
  if (!status_.ok() || meta(v).sizes == sizes) return v;
  if (!ViewStrides(meta(v), sizes, graph_.shapes).has_value()) {
    v = Contiguous(v);
  }
  return View(v, sizes);
}

ValueId Emitter::Permute(ValueId v, Dims dims) {
  return Call(W().permute, {v, ListArgument(dims)});
}
ValueId Emitter::Transpose(ValueId v, int64_t a, int64_t b) {
  return Call(W().transpose, {v, a, b});
}
ValueId Emitter::Unsqueeze(ValueId v, int64_t dim) {
  return Call(W().unsqueeze, {v, dim});
}
ValueId Emitter::Squeeze(ValueId v, Dims dims) {
  if (dims.empty()) return v;
  return Call(W().squeeze, {v, ListArgument(dims)});
}
ValueId Emitter::Expand(ValueId v, const DimVector& sizes) {
  if (meta(v).sizes == sizes) return v;
  return Call(W().expand, {v, ListArgument(sizes)});
}
ValueId Emitter::Slice(ValueId v, int64_t dim, SymExpr start, SymExpr end,
                       SymExpr step) {
  return Call(W().slice, {v, dim, start, end, step});
}
ValueId Emitter::Select(ValueId v, int64_t dim, SymExpr index) {
  return Call(W().select, {v, dim, index});
}

ValueId Emitter::IndexDim(ValueId v, int64_t dim, ValueId places) {
  Argument::List indices(dim);
  indices.emplace_back(places);
  return Call(W().unsafe_index, {v, std::move(indices)});
}

ValueId Emitter::Gather(ValueId v, int64_t dim, ValueId places) {
  return Call(W().gather, {v, dim, places, false});
}

ValueId Emitter::Contiguous(ValueId v) {
  return Call(W().clone, {v, MemoryFormat::kContiguous});
}

ValueId Emitter::WithStrides(ValueId v, const DimVector& strides) {
  if (!status_.ok()) return v;
  const TensorMeta& now = meta(v);
  ShapeEnv& shapes = graph_.shapes;
  bool same = true;
  for (size_t d = 0; d < strides.size(); ++d) {
    same = same &&
           (now.sizes[d].Is(1) || shapes.KnownEq(now.strides[d], strides[d]));
  }
  if (same) return v;
  // The copy is row-major under the order of dims that the strides ask for.
  std::vector<int64_t> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return shapes.Hint(strides[a]) > shapes.Hint(strides[b]);
  });
  if (std::is_sorted(order.begin(), order.end())) return Contiguous(v);
  std::vector<int64_t> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[order[d]] = d;
  return Permute(Contiguous(Permute(v, order)), inverse);
}

ValueId Emitter::Full(const DimVector& sizes, const Argument& value,
                      DType dtype) {
  return Call(W().full, {ListArgument(sizes), value, dtype});
}

ValueId Emitter::Iota(SymExpr length, DType dtype) {
  return Call(W().iota, {length, 0, 1, dtype, DeviceType::kCpu, false});
}

ValueId Emitter::Mm(ValueId a, ValueId b) { return Call(W().mm, {a, b}); }
ValueId Emitter::Bmm(ValueId a, ValueId b) { return Call(W().bmm, {a, b}); }

}  // namespace kiln

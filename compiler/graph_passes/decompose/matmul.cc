// Products of vectors, matrices and batches: down to mm, bmm and addmm, which
// libraries compute.

#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// [rows, last]: all dims but the last made one.
ValueId Flat(Emitter& e, ValueId x) {
  const DimVector& sizes = e.meta(x).sizes;
  SymExpr rows = 1;
  for (size_t k = 0; k + 1 < sizes.size(); ++k) rows *= sizes[k];
  return e.Reshape(x, {rows, sizes.back()});
}

DimVector WithLast(const DimVector& sizes, const SymExpr& last) {
  DimVector out = sizes;
  out.back() = last;
  return out;
}

Parts Linear(Decomposition& d) {
  Emitter& e = d.e;
  static const OpDef& kAddmm = KnownOp("aten.addmm.default");
  const ValueId x = d.Tensor("input"), w = d.Tensor("weight");
  const DimVector sizes = WithLast(e.meta(x).sizes, e.meta(w).sizes[0]);
  const ValueId flat = Flat(e, x), turned = e.Transpose(w, 0, 1);
  const ValueId y = d.Has("bias")
                        ? e.Call(kAddmm, {d.Tensor("bias"), flat, turned, 1, 1})
                        : e.Mm(flat, turned);
  return {e.View(y, sizes)};
}

// Leading sizes of both, broadcast.
DimVector BatchSizes(Emitter& e, const DimVector& a, const DimVector& b) {
  const size_t in_a = a.size() - 2, in_b = b.size() - 2;
  DimVector out(std::max(in_a, in_b), SymExpr(1));
  for (size_t k = 0; k < in_a; ++k) out[out.size() - in_a + k] = a[k];
  for (size_t k = 0; k < in_b; ++k) {
    SymExpr& size = out[out.size() - in_b + k];
    if (e.graph().shapes.KnownOne(size)) size = b[k];
  }
  return out;
}

// x expanded over `batch` and seen as [product of batch, rows, columns].
ValueId Batched(Emitter& e, ValueId x, const DimVector& batch) {
  const DimVector own = e.meta(x).sizes;
  DimVector sizes = batch;
  sizes.insert(sizes.end(), own.end() - 2, own.end());
  const ValueId wide = e.Expand(x, sizes);
  return e.Reshape(wide,
                   {Product(batch), own[own.size() - 2], own[own.size() - 1]});
}

ValueId BatchedProduct(Emitter& e, ValueId a, ValueId b) {
  const DimVector batch = BatchSizes(e, e.meta(a).sizes, e.meta(b).sizes);
  DimVector sizes = batch;
  sizes.push_back(e.meta(a).sizes[e.rank(a) - 2]);
  sizes.push_back(e.meta(b).sizes[e.rank(b) - 1]);
  return e.View(e.Bmm(Batched(e, a, batch), Batched(e, b, batch)), sizes);
}

Parts Matmul(Decomposition& d) {
  Emitter& e = d.e;
  ValueId a = d.Tensor("self"), b = d.Tensor("other");
  if (e.rank(a) == 1 && e.rank(b) == 1) {
    return {e.Sum(e.Mul(e.Compute(a), e.Compute(b)), {0}, Keep::kNo)};
  }
  const bool row = e.rank(a) == 1, column = e.rank(b) == 1;
  if (row) a = e.Unsqueeze(a, 0);
  if (column) b = e.Unsqueeze(b, 1);
  ValueId y;
  if (e.rank(b) == 2) {
    // The batch of the left side is more rows.
    const DimVector sizes = WithLast(e.meta(a).sizes, e.meta(b).sizes.back());
    y = e.View(e.Mm(Flat(e, a), b), sizes);
  } else {
    y = BatchedProduct(e, a, b);
  }
  if (row) y = e.Squeeze(y, {e.rank(y) - 2});
  if (column) y = e.Squeeze(y, {e.rank(y) - 1});
  return {y};
}

ValueId MatrixVector(Emitter& e, ValueId matrix, ValueId vector) {
  return e.Squeeze(e.Mm(matrix, e.Unsqueeze(vector, 1)), {1});
}

Parts Mv(Decomposition& d) {
  return {MatrixVector(d.e, d.Tensor("self"), d.Tensor("vec"))};
}

Parts Dot(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId other = d.Tensor(d.Has("tensor") ? "tensor" : "other");
  // Integers multiply as integers.
  const ValueId product = e.Mul(d.Tensor("self"), other);
  if (!IsFloat(e.dtype(product))) {
    return {e.Sum(product, {0}, Keep::kNo)};
  }
  return {e.Sum(e.Mul(d.Compute("self"), e.Compute(other)), {0}, Keep::kNo)};
}

// A factor as the operator computes with it: integers drop the fraction.
Argument Factor(Decomposition& d, absl::string_view name, DType dtype) {
  const double value = d.Float(name);
  return IsFloat(dtype) ? Argument(value)
                        : Argument(static_cast<int64_t>(value));
}

// beta * self + alpha * product; self unread where beta is 0.
ValueId WithBias(Decomposition& d, ValueId product) {
  Emitter& e = d.e;
  const DType dtype = e.dtype(product);
  if (d.Float("alpha") != 1) {
    product = e.Mul(product, Factor(d, "alpha", dtype));
  }
  if (d.Float("beta") == 0) return product;
  ValueId bias = d.Tensor("self");
  if (d.Float("beta") != 1) bias = e.Mul(bias, Factor(d, "beta", dtype));
  return e.Add(product, bias);
}

Parts Addmv(Decomposition& d) {
  return {WithBias(d, MatrixVector(d.e, d.Tensor("mat"), d.Tensor("vec")))};
}

Parts Addr(Decomposition& d) {
  return {WithBias(
      d, d.e.Mul(d.e.Unsqueeze(d.Tensor("vec1"), 1), d.Tensor("vec2")))};
}

constexpr DecomposeRow kRows[] = {
    {"aten.linear.default", Linear}, {"aten.matmul.default", Matmul},
    {"aten.mv.default", Mv},         {"aten.dot.default", Dot},
    {"aten.vdot.default", Dot},      {"aten.addmv.default", Addmv},
    {"aten.addr.default", Addr},
};

}  // namespace

absl::Span<const DecomposeRow> MatmulDecompositions() { return kRows; }

}  // namespace kiln

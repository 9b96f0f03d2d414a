// Matrix products. Results are contiguous.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kStep = Handling::kStep;
constexpr auto kDecompose = Handling::kDecompose;

absl::Status CheckDTypes(const TensorMeta& a, const TensorMeta& b) {
  if (a.dtype == b.dtype) return absl::OkStatus();
  return Malformed(absl::StrCat("product of ", ToText(a), " and ", ToText(b),
                                ", expected one dtype"));
}

// [..., M, K] x [..., K, N], of rank `rank`, batch sizes equal.
absl::StatusOr<TensorMeta> Multiply(const InferInput& in, size_t left,
                                    size_t right, int rank) {
  const TensorMeta& a = in.tensor(left);
  const TensorMeta& b = in.tensor(right);
  RETURN_IF_ERROR(CheckDTypes(a, b));
  bool fits = a.rank() == rank && b.rank() == rank &&
              in.shapes.DecideEq(a.sizes[rank - 1], b.sizes[rank - 2],
                                 "matrix product");
  if (fits && rank == 3) {
    fits = in.shapes.DecideEq(a.sizes[0], b.sizes[0], "matrix product");
  }
  if (!fits) {
    return Malformed(
        absl::StrCat("product of ", ToText(a), " and ", ToText(b)));
  }
  DimVector sizes(a.sizes.begin(), a.sizes.end() - 1);
  sizes.push_back(b.sizes.back());
  return ContiguousMeta(a.dtype, std::move(sizes));
}

absl::StatusOr<TensorMetas> InferMm(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, Multiply(in, 0, 1, 2));
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferBmm(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, Multiply(in, 0, 1, 3));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> WithBias(const InferInput& in, int rank) {
  ASSIGN_OR_RETURN(TensorMeta meta, Multiply(in, 1, 2, rank));
  RETURN_IF_ERROR(CheckDTypes(in.tensor(0), in.tensor(1)));
  ASSIGN_OR_RETURN(
      const DimVector sizes,
      BroadcastSizes({&meta.sizes, &in.tensor(0).sizes}, in.shapes));
  if (!SameSizes(sizes, meta.sizes, in.shapes)) {
    return Malformed(absl::StrCat("bias ", ToText(in.tensor(0)),
                                  " does not broadcast to ", ToText(meta)));
  }
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferAddmm(const InferInput& in) {
  return WithBias(in, 2);
}
absl::StatusOr<TensorMetas> InferBaddbmm(const InferInput& in) {
  return WithBias(in, 3);
}

// [M, K] x [K]
absl::StatusOr<TensorMeta> MatrixVector(const InferInput& in, size_t left,
                                        size_t right) {
  const TensorMeta& a = in.tensor(left);
  const TensorMeta& b = in.tensor(right);
  RETURN_IF_ERROR(CheckDTypes(a, b));
  if (a.rank() != 2 || b.rank() != 1 ||
      !in.shapes.DecideEq(a.sizes[1], b.sizes[0], "matrix product")) {
    return Malformed(
        absl::StrCat("product of ", ToText(a), " and ", ToText(b)));
  }
  return ContiguousMeta(a.dtype, {a.sizes[0]});
}
absl::StatusOr<TensorMetas> InferMv(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, MatrixVector(in, 0, 1));
  return TensorMetas{std::move(meta)};
}
absl::StatusOr<TensorMetas> InferAddmv(const InferInput& in) {
  ASSIGN_OR_RETURN(TensorMeta meta, MatrixVector(in, 1, 2));
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferDot(const InferInput& in) {
  const TensorMeta& a = in.tensor(0);
  const TensorMeta& b = in.tensor(1);
  RETURN_IF_ERROR(CheckDTypes(a, b));
  if (a.rank() != 1 || b.rank() != 1 ||
      !in.shapes.DecideEq(a.sizes[0], b.sizes[0], "dot")) {
    return Malformed(absl::StrCat("dot of ", ToText(a), " and ", ToText(b)));
  }
  return TensorMetas{ContiguousMeta(a.dtype, {})};
}

// addr(self, vec1, vec2, *, beta, alpha)
absl::StatusOr<TensorMetas> InferAddr(const InferInput& in) {
  const TensorMeta& a = in.tensor(1);
  const TensorMeta& b = in.tensor(2);
  if (a.rank() != 1 || b.rank() != 1) return Malformed("expected vectors");
  return TensorMetas{
      ContiguousMeta(in.tensor(0).dtype, {a.sizes[0], b.sizes[0]})};
}

// linear(input, weight, bias)
absl::StatusOr<TensorMetas> InferLinear(const InferInput& in) {
  const TensorMeta& a = in.tensor(0);
  const TensorMeta& w = in.tensor(1);
  RETURN_IF_ERROR(CheckDTypes(a, w));
  if (a.rank() < 1 || w.rank() != 2 ||
      !in.shapes.DecideEq(a.sizes.back(), w.sizes[1], "linear")) {
    return Malformed(absl::StrCat("linear of ", ToText(a), " by ", ToText(w)));
  }
  DimVector sizes(a.sizes.begin(), a.sizes.end() - 1);
  sizes.push_back(w.sizes[0]);
  return TensorMetas{ContiguousMeta(a.dtype, std::move(sizes))};
}

// matmul with NumPy's rules for batches and vectors.
absl::StatusOr<TensorMetas> InferMatmul(const InferInput& in) {
  const TensorMeta& a = in.tensor(0);
  const TensorMeta& b = in.tensor(1);
  RETURN_IF_ERROR(CheckDTypes(a, b));
  if (a.rank() == 0 || b.rank() == 0) return Malformed("a factor of rank 0");
  const SymExpr& rows = b.rank() == 1 ? b.sizes[0] : b.sizes[b.rank() - 2];
  if (!in.shapes.DecideEq(a.sizes.back(), rows, "matmul")) {
    return Malformed(absl::StrCat("matmul of ", ToText(a), " by ", ToText(b)));
  }
  const DimVector batch_a(a.sizes.begin(),
                          a.sizes.end() - std::min(a.rank(), 2));
  const DimVector batch_b(b.sizes.begin(),
                          b.sizes.end() - std::min(b.rank(), 2));
  ASSIGN_OR_RETURN(DimVector sizes,
                   BroadcastSizes({&batch_a, &batch_b}, in.shapes));
  if (a.rank() > 1) sizes.push_back(a.sizes[a.rank() - 2]);
  if (b.rank() > 1) sizes.push_back(b.sizes.back());
  return TensorMetas{ContiguousMeta(a.dtype, std::move(sizes))};
}

constexpr auto kInplace = OpRow::Inplace::kYes;

constexpr OpRow kRows[] = {
    {"aten.mm.default", "(Tensor self, Tensor mat2) -> Tensor", InferMm, kStep},
    {"aten.bmm.default", "(Tensor self, Tensor mat2) -> Tensor", InferBmm,
     kStep},
    {"aten.addmm.default",
     "(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar "
     "alpha=1) -> Tensor",
     InferAddmm, kStep, kInplace},
    {"aten.baddbmm.default",
     "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar "
     "alpha=1) -> Tensor",
     InferBaddbmm, kStep, kInplace},
    {"aten.mv.default", "(Tensor self, Tensor vec) -> Tensor", InferMv,
     kDecompose},
    {"aten.addmv.default",
     "(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) "
     "-> Tensor",
     InferAddmv, kDecompose, kInplace},
    {"aten.dot.default", "(Tensor self, Tensor tensor) -> Tensor", InferDot,
     kDecompose},
    {"aten.vdot.default", "(Tensor self, Tensor other) -> Tensor", InferDot,
     kDecompose},
    {"aten.addr.default",
     "(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar "
     "alpha=1) -> Tensor",
     InferAddr, kDecompose, kInplace},
    {"aten.linear.default",
     "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", InferLinear,
     kDecompose},
    {"aten.matmul.default", "(Tensor self, Tensor other) -> Tensor",
     InferMatmul, kDecompose},
};

}  // namespace

absl::Span<const OpRow> MatmulOps() { return kRows; }

}  // namespace kiln

// Operators that make tensors out of numbers.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;
constexpr auto kDecompose = Handling::kDecompose;

// The dtype that PyTorch gives a tensor of this number.
DType DTypeOfNumber(const Argument& number) {
  if (std::holds_alternative<bool>(number.v)) return DType::kBool;
  return std::holds_alternative<double>(number.v) ? DType::kFloat32
                                                  : DType::kInt64;
}

absl::Status CheckSizes(const DimVector& sizes) {
  for (const SymExpr& size : sizes) {
    if (size.is_constant() && size.constant() < 0) {
      return Malformed(
          absl::StrCat("sizes ", ToText(sizes), ", expected 0 or more"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorMetas> Filled(DType dtype, DimVector sizes) {
  RETURN_IF_ERROR(CheckSizes(sizes));
  return TensorMetas{ContiguousMeta(dtype, std::move(sizes))};
}

// full(size, fill_value, dtype)
absl::StatusOr<TensorMetas> InferFull(const InferInput& in) {
  return Filled(in.dtype(2).value_or(DTypeOfNumber(in.args[1])), in.ints(0));
}

// zeros, ones, empty(size, dtype)
absl::StatusOr<TensorMetas> InferZeros(const InferInput& in) {
  return Filled(in.dtype(1).value_or(DType::kFloat32), in.ints(0));
}

absl::StatusOr<TensorMetas> InferEmptyFormat(const InferInput& in) {
  DimVector sizes = in.ints(0);
  RETURN_IF_ERROR(CheckSizes(sizes));
  const auto* format = std::get_if<MemoryFormat>(&in.args[5].v);
  const bool channels_last =
      format != nullptr && (*format == MemoryFormat::kChannelsLast ||
                            *format == MemoryFormat::kChannelsLast3d);
  return TensorMetas{MetaInFormat(in.dtype(1).value_or(DType::kFloat32),
                                  std::move(sizes), channels_last)};
}

// empty_permuted(size, physical_layout)
absl::StatusOr<TensorMetas> InferEmptyPermuted(const InferInput& in) {
  TensorMeta meta;
  meta.dtype = in.dtype(2).value_or(DType::kFloat32);
  meta.sizes = in.ints(0);
  RETURN_IF_ERROR(CheckSizes(meta.sizes));
  meta.strides.resize(meta.sizes.size());
  const std::vector<int64_t> order = in.fixed_ints(1);
  if (order.size() != meta.sizes.size()) {
    return Malformed("physical_layout of another rank than size");
  }
  SymExpr stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    ASSIGN_OR_RETURN(const int dim, WrapDim(order[i], meta.rank()));
    meta.strides[dim] = stride;
    stride = stride * meta.sizes[dim];
  }
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferEmptyStrided(const InferInput& in) {
  TensorMeta meta;
  meta.dtype = in.dtype(2).value_or(DType::kFloat32);
  meta.sizes = in.ints(0);
  meta.strides = in.ints(1);
  RETURN_IF_ERROR(CheckSizes(meta.sizes));
  if (meta.sizes.size() != meta.strides.size()) {
    return Malformed("stride of another rank than size");
  }
  return TensorMetas{std::move(meta)};
}

absl::StatusOr<TensorMetas> InferScalarTensor(const InferInput& in) {
  return Filled(in.dtype(1).value_or(DType::kFloat32), {});
}

// full_like(self, fill_value, dtype, layout, device, pin_memory, format) and
// the forms without a value, whose arguments stand one earlier.
TensorMetas LikeSelf(const InferInput& in, size_t first_option) {
  const TensorMeta& self = in.tensor(0);
  TensorMeta meta;
  meta.dtype = in.dtype(first_option).value_or(self.dtype);
  meta.sizes = self.sizes;
  const auto* format = std::get_if<MemoryFormat>(&in.args[first_option + 4].v);
  meta.strides = LikeStrides(
      self, format == nullptr ? MemoryFormat::kPreserve : *format, in.shapes);
  return {std::move(meta)};
}
absl::StatusOr<TensorMetas> InferZerosLike(const InferInput& in) {
  return LikeSelf(in, 1);
}
absl::StatusOr<TensorMetas> InferFullLike(const InferInput& in) {
  return LikeSelf(in, 2);
}

absl::StatusOr<TensorMetas> InferNewZeros(const InferInput& in) {
  return Filled(in.dtype(2).value_or(in.tensor(0).dtype), in.ints(1));
}
absl::StatusOr<TensorMetas> InferNewFull(const InferInput& in) {
  return Filled(in.dtype(3).value_or(in.tensor(0).dtype), in.ints(1));
}

bool IsInt(const Argument& a) { return std::holds_alternative<SymExpr>(a.v); }
double AsDouble(const Argument& a) {
  if (const double* d = std::get_if<double>(&a.v)) return *d;
  if (const bool* b = std::get_if<bool>(&a.v)) return *b ? 1 : 0;
  return static_cast<double>(a.sym().constant());
}

// The count of elements in [start, end) by step.
absl::StatusOr<TensorMetas> Range(const Argument& start, const Argument& end,
                                  const Argument& step,
                                  std::optional<DType> dtype) {
  if (IsInt(start) && IsInt(end) && IsInt(step)) {
    if (step.sym().Is(0)) return Malformed("step is 0");
    const SymExpr count = CeilDiv(end.sym() - start.sym(), step.sym());
    if (count.is_constant() && count.constant() < 0) {
      return Malformed("end lies before start");
    }
    return Filled(dtype.value_or(DType::kInt64), {count});
  }
  for (const Argument* a : {&start, &end, &step}) {
    if (IsInt(*a) && !a->sym().is_constant()) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       "arange: symbols beside floats");
    }
  }
  const double by = AsDouble(step);
  const double span = AsDouble(end) - AsDouble(start);
  if (by == 0 || !(span / by >= 0) || !(span / by < 1e15)) {
    return Malformed("no count of steps leads from start to end");
  }
  return Filled(dtype.value_or(DType::kFloat32),
                {static_cast<int64_t>(std::ceil(span / by))});
}

absl::StatusOr<TensorMetas> InferArange(const InferInput& in) {
  return Range(Argument(0), in.args[0], Argument(1), in.dtype(1));
}
absl::StatusOr<TensorMetas> InferArangeStart(const InferInput& in) {
  return Range(in.args[0], in.args[1], Argument(1), in.dtype(2));
}
absl::StatusOr<TensorMetas> InferArangeStep(const InferInput& in) {
  return Range(in.args[0], in.args[1], in.args[2], in.dtype(3));
}

// prims.iota(length, start, step, dtype, ...)
absl::StatusOr<TensorMetas> InferIota(const InferInput& in) {
  return Filled(in.dtype(3).value_or(DType::kInt64), {in.sym(0)});
}

absl::StatusOr<TensorMetas> InferEye(const InferInput& in) {
  return Filled(in.dtype(1).value_or(DType::kFloat32), {in.sym(0), in.sym(0)});
}
absl::StatusOr<TensorMetas> InferEyeM(const InferInput& in) {
  return Filled(in.dtype(2).value_or(DType::kFloat32), {in.sym(0), in.sym(1)});
}
absl::StatusOr<TensorMetas> InferLinspace(const InferInput& in) {
  return Filled(in.dtype(3).value_or(DType::kFloat32), {in.sym(2)});
}

// tril_indices(row, col, offset): two rows of indices on and below a diagonal.
absl::StatusOr<TensorMetas> TriangleIndices(const InferInput& in, bool lower) {
  const int64_t rows = in.integer(0), cols = in.integer(1);
  const int64_t offset = in.integer(2);
  if (rows < 0 || cols < 0 || rows > (1 << 20)) {
    return Malformed("row and col, expected in [0, 2^20]");
  }
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t below = std::clamp<int64_t>(r + offset + 1, 0, cols);
    const int64_t above = std::clamp<int64_t>(cols - (r + offset), 0, cols);
    count += lower ? below : above;
  }
  return Filled(in.dtype(3).value_or(DType::kInt64), {2, count});
}
absl::StatusOr<TensorMetas> InferTrilIndices(const InferInput& in) {
  return TriangleIndices(in, /*lower=*/true);
}
absl::StatusOr<TensorMetas> InferTriuIndices(const InferInput& in) {
  return TriangleIndices(in, /*lower=*/false);
}

#define KILN_OPTIONS                                                         \
  "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? " \
  "pin_memory=None"
#define KILN_LIKE_OPTIONS KILN_OPTIONS ", MemoryFormat? memory_format=None"

// new_empty_strided(self, size, stride, ...)
absl::StatusOr<TensorMetas> InferNewStrided(const InferInput& in) {
  TensorMeta meta;
  meta.dtype = in.dtype(3).value_or(in.tensor(0).dtype);
  meta.sizes = in.ints(1);
  meta.strides = in.ints(2);
  RETURN_IF_ERROR(CheckSizes(meta.sizes));
  if (meta.sizes.size() != meta.strides.size()) {
    return Malformed("stride of another rank than size");
  }
  return TensorMetas{std::move(meta)};
}
// logspace(start, end, steps, base, *, dtype)
absl::StatusOr<TensorMetas> InferLogspace(const InferInput& in) {
  return Filled(in.dtype(4).value_or(DType::kFloat32), {in.sym(2)});
}

// prims.inductor_seed(device)
absl::StatusOr<TensorMetas> InferSeed(const InferInput&) {
  return TensorMetas{ContiguousMeta(DType::kInt64, {})};
}
// prims.inductor_random(size, seed, mode)
absl::StatusOr<TensorMetas> InferRandom(const InferInput& in) {
  return TensorMetas{ContiguousMeta(DType::kFloat32, in.ints(0))};
}

constexpr OpRow kRows[] = {
    {"prims.inductor_seed.default", "(Device device) -> Tensor", InferSeed,
     kLower},
    {"prims.inductor_random.default",
     "(SymInt[] size, Tensor seed, str mode) -> Tensor", InferRandom, kLower},
    {"aten.full.default",
     "(SymInt[] size, Scalar fill_value, *, " KILN_OPTIONS ") -> Tensor",
     InferFull, kLower},
    {"aten.zeros.default", "(SymInt[] size, *, " KILN_OPTIONS ") -> Tensor",
     InferZeros, kLower},
    {"aten.ones.default", "(SymInt[] size, *, " KILN_OPTIONS ") -> Tensor",
     InferZeros, kLower},
    {"aten.empty.memory_format",
     "(SymInt[] size, *, " KILN_LIKE_OPTIONS ") -> Tensor", InferEmptyFormat,
     kLower},
    {"aten.empty_permuted.default",
     "(SymInt[] size, int[] physical_layout, *, " KILN_OPTIONS ") -> Tensor",
     InferEmptyPermuted, kLower},
    {"aten.empty_strided.default",
     "(SymInt[] size, SymInt[] stride, *, " KILN_OPTIONS ") -> Tensor",
     InferEmptyStrided, kLower},
    {"aten.scalar_tensor.default", "(Scalar s, *, " KILN_OPTIONS ") -> Tensor",
     InferScalarTensor, kLower},
    {"aten.zeros_like.default",
     "(Tensor self, *, " KILN_LIKE_OPTIONS ") -> Tensor", InferZerosLike,
     kLower},
    {"aten.ones_like.default",
     "(Tensor self, *, " KILN_LIKE_OPTIONS ") -> Tensor", InferZerosLike,
     kLower},
    {"aten.empty_like.default",
     "(Tensor self, *, " KILN_LIKE_OPTIONS ") -> Tensor", InferZerosLike,
     kLower},
    {"aten.full_like.default",
     "(Tensor self, Scalar fill_value, *, " KILN_LIKE_OPTIONS ") -> Tensor",
     InferFullLike, kLower},
    {"aten.new_zeros.default",
     "(Tensor self, SymInt[] size, *, " KILN_OPTIONS ") -> Tensor",
     InferNewZeros, kLower},
    {"aten.new_ones.default",
     "(Tensor self, SymInt[] size, *, " KILN_OPTIONS ") -> Tensor",
     InferNewZeros, kLower},
    {"aten.new_empty.default",
     "(Tensor self, SymInt[] size, *, " KILN_OPTIONS ") -> Tensor",
     InferNewZeros, kLower},
    {"aten.new_full.default",
     "(Tensor self, SymInt[] size, Scalar fill_value, *, " KILN_OPTIONS
     ") -> Tensor",
     InferNewFull, kLower},
    {"aten.arange.default", "(Scalar end, *, " KILN_OPTIONS ") -> Tensor",
     InferArange, kLower},
    {"aten.arange.start",
     "(Scalar start, Scalar end, *, " KILN_OPTIONS ") -> Tensor",
     InferArangeStart, kLower},
    {"aten.arange.start_step",
     "(Scalar start, Scalar end, Scalar step=1, *, " KILN_OPTIONS ") -> Tensor",
     InferArangeStep, kLower},
    {"prims.iota.default",
     "(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, Device? "
     "device=None, bool requires_grad=False) -> Tensor",
     InferIota, kLower},
    {"aten.eye.default", "(SymInt n, *, " KILN_OPTIONS ") -> Tensor", InferEye,
     kLower},
    {"aten.eye.m", "(SymInt n, SymInt m, *, " KILN_OPTIONS ") -> Tensor",
     InferEyeM, kLower},
    {"aten.new_empty_strided.default",
     "(Tensor self, SymInt[] size, SymInt[] stride, *, " KILN_OPTIONS
     ") -> Tensor",
     InferNewStrided, kLower},
    {"aten.linspace.default",
     "(Scalar start, Scalar end, int steps, *, " KILN_OPTIONS ") -> Tensor",
     InferLinspace, kDecompose},
    {"aten.linspace.Tensor_Tensor",
     "(Tensor start, Tensor end, int steps, *, " KILN_OPTIONS ") -> Tensor",
     InferLinspace, kDecompose},
    {"aten.linspace.Tensor_Scalar",
     "(Tensor start, Scalar end, int steps, *, " KILN_OPTIONS ") -> Tensor",
     InferLinspace, kDecompose},
    {"aten.linspace.Scalar_Tensor",
     "(Scalar start, Tensor end, int steps, *, " KILN_OPTIONS ") -> Tensor",
     InferLinspace, kDecompose},
    {"aten.logspace.default",
     "(Scalar start, Scalar end, int steps, float base=10.0, *, " KILN_OPTIONS
     ") -> Tensor",
     InferLogspace, kDecompose},
    {"aten.logspace.Tensor_Tensor",
     "(Tensor start, Tensor end, int steps, float base=10.0, *, " KILN_OPTIONS
     ") -> Tensor",
     InferLogspace, kDecompose},
    {"aten.logspace.Tensor_Scalar",
     "(Tensor start, Scalar end, int steps, float base=10.0, *, " KILN_OPTIONS
     ") -> Tensor",
     InferLogspace, kDecompose},
    {"aten.logspace.Scalar_Tensor",
     "(Scalar start, Tensor end, int steps, float base=10.0, *, " KILN_OPTIONS
     ") -> Tensor",
     InferLogspace, kDecompose},
    {"aten.tril_indices.default",
     "(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     InferTrilIndices, kDecompose},
    {"aten.triu_indices.default",
     "(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     InferTriuIndices, kDecompose},
};

}  // namespace

absl::Span<const OpRow> FactoryOps() { return kRows; }

}  // namespace kiln

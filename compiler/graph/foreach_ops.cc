// Operators on lists of tensors, element of the list by element.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "compiler/graph/type_promotion.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;

// Alpha, value and weight scale; the other numbers are operands.
bool IsOperand(absl::string_view param) {
  return param == "scalar" || param == "exponent" || param == "self";
}

// The lists among the arguments go together; numbers and single tensors apply
// to all.
absl::StatusOr<TensorMetas> InferForeach(const InferInput& in) {
  size_t first = 0;
  while (!in.args[first].is_list()) ++first;
  const size_t count = in.tensors(first).size();
  TensorMetas metas;
  for (size_t i = 0; i < count; ++i) {
    TypePromotion promotion;
    MetaPointers operands;
    absl::InlinedVector<const DimVector*, 4> sizes;
    for (size_t a = 0; a < in.args.size(); ++a) {
      if (in.is_tensor(a)) {
        operands.push_back(&in.tensor(a));
        sizes.push_back(&in.tensor(a).sizes);
        promotion.AddTensor(in.tensor(a));
        continue;
      }
      if (!in.args[a].is_list()) {
        if (in.has(a) && IsOperand(in.schema.params[a].name)) {
          promotion.AddNumber(in.args[a]);
        }
        continue;
      }
      const std::vector<const TensorMeta*> list = in.tensors(a);
      if (list.size() != count) {
        return Malformed(
            absl::StrCat("lists of ", count, " and ", list.size(), " tensors"));
      }
      operands.push_back(list[i]);
      sizes.push_back(&list[i]->sizes);
      promotion.AddTensor(*list[i]);
    }
    TensorMeta meta;
    meta.dtype = promotion.Result();
    ASSIGN_OR_RETURN(meta.sizes, BroadcastSizes(sizes, in.shapes));
    meta.strides = ElementwiseStrides(meta.sizes, operands, in.shapes);
    metas.push_back(std::move(meta));
  }
  return metas;
}

// _foreach_norm(self, ord, dtype): a number of each member.
absl::StatusOr<TensorMetas> InferNorms(const InferInput& in) {
  TensorMetas metas;
  for (const TensorMeta* member : in.tensors(0)) {
    TensorMeta meta;
    meta.dtype = in.dtype(2).value_or(member->dtype);
    metas.push_back(std::move(meta));
  }
  return metas;
}

constexpr absl::string_view kUnary = "(Tensor[] self) -> Tensor[]";
constexpr absl::string_view kScalar =
    "(Tensor[] self, Scalar scalar) -> Tensor[]";
constexpr absl::string_view kList =
    "(Tensor[] self, Tensor[] other) -> Tensor[]";
constexpr absl::string_view kListAlpha =
    "(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]";
constexpr absl::string_view kTensor =
    "(Tensor[] self, Tensor other) -> Tensor[]";
constexpr absl::string_view kThree =
    "(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> "
    "Tensor[]";

constexpr OpRow kRows[] = {
    {"aten._foreach_add.List", kListAlpha, InferForeach, kDecompose},
    {"aten._foreach_add.Scalar", kScalar, InferForeach, kDecompose},
    {"aten._foreach_sub.List", kListAlpha, InferForeach, kDecompose},
    {"aten._foreach_sub.Scalar", kScalar, InferForeach, kDecompose},
    {"aten._foreach_mul.List", kList, InferForeach, kDecompose},
    {"aten._foreach_mul.Scalar", kScalar, InferForeach, kDecompose},
    {"aten._foreach_div.List", kList, InferForeach, kDecompose},
    {"aten._foreach_div.Scalar", kScalar, InferForeach, kDecompose},
    {"aten._foreach_mul.Tensor", kTensor, InferForeach, kDecompose},
    {"aten._foreach_div.Tensor", kTensor, InferForeach, kDecompose},
    {"aten._foreach_maximum.List", kList, InferForeach, kDecompose},
    {"aten._foreach_minimum.List", kList, InferForeach, kDecompose},
    {"aten._foreach_pow.ScalarAndTensor",
     "(Scalar self, Tensor[] exponent) -> Tensor[]", InferForeach, kDecompose},
    {"aten._foreach_abs.default", kUnary, InferForeach, kDecompose},
    {"aten._foreach_sqrt.default", kUnary, InferForeach, kDecompose},
    {"aten._foreach_neg.default", kUnary, InferForeach, kDecompose},
    {"aten._foreach_reciprocal.default", kUnary, InferForeach, kDecompose},
    {"aten._foreach_addcmul.Scalar", kThree, InferForeach, kDecompose},
    {"aten._foreach_addcdiv.Scalar", kThree, InferForeach, kDecompose},
    {"aten._foreach_lerp.Scalar",
     "(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]",
     InferForeach, kDecompose},
    {"aten._foreach_norm.Scalar",
     "(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
     InferNorms, kDecompose},
};

}  // namespace

absl::Span<const OpRow> ForeachOps() { return kRows; }

}  // namespace kiln

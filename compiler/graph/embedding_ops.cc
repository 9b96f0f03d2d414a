// Embeddings in bags: rows of a table, summed, averaged or maximized over
// stretches of a list of indices.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_families.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr auto kDecompose = Handling::kDecompose;
constexpr int64_t kMean = 1;
constexpr int64_t kMax = 2;

absl::Status CheckBags(const TensorMeta& weight, const TensorMeta& indices,
                       const TensorMeta& offsets) {
  if (weight.rank() == 2 && indices.rank() == 1 && offsets.rank() == 1 &&
      IsInteger(indices.dtype) && IsInteger(offsets.dtype)) {
    return absl::OkStatus();
  }
  return Malformed(absl::StrCat("bags of ", ToText(indices), " cut by ",
                                ToText(offsets), " in ", ToText(weight)));
}

// Whether eager mode on the CPU sums bags without knowing each index's bag:
// then the second result is empty. Source: PyTorch's EmbeddingBag.cpp,
// is_fast_path.
bool SumsWithoutBags(const InferInput& in, int64_t mode) {
  const TensorMeta& weight = in.tensor(0);
  const bool known = weight.dtype == DType::kFloat32 || IsHalf(weight.dtype);
  return mode != kMean && mode != kMax && known && weight.strides[1].Is(1) &&
         in.integer(8) < 0 && (!in.has(6) || in.tensor(6).strides[0].Is(1));
}

// _embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
// per_sample_weights, include_last_offset, padding_idx) -> output, the bag of
// each index, the size of each bag, where each maximum came from. The last
// three have the sizes that eager mode gives them on the CPU, also in graphs
// for CUDA: nobody but the gradient reads them.
absl::StatusOr<TensorMetas> InferEmbeddingBag(const InferInput& in) {
  const TensorMeta& weight = in.tensor(0);
  const TensorMeta& indices = in.tensor(1);
  const TensorMeta& offsets = in.tensor(2);
  RETURN_IF_ERROR(CheckBags(weight, indices, offsets));
  const int64_t mode = in.integer(4);
  const SymExpr bags = offsets.sizes[0] - (in.flag(7) ? 1 : 0);
  const SymExpr width = weight.sizes[1];
  const bool no_bags = SumsWithoutBags(in, mode);
  DimVector top = {bags};
  if (mode == kMax) top = {bags, width};
  const DType places = offsets.dtype;
  return TensorMetas{
      ContiguousMeta(weight.dtype, {bags, width}),
      ContiguousMeta(places, {no_bags ? SymExpr(0) : indices.sizes[0]}),
      ContiguousMeta(places, {bags}), ContiguousMeta(places, std::move(top))};
}

// _embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size,
// maximum_indices, num_weights, ...)
absl::StatusOr<TensorMetas> InferBackward(const InferInput& in) {
  const TensorMeta& grad = in.tensor(0);
  if (grad.rank() != 2) return Malformed("a gradient that is no matrix");
  return TensorMetas{ContiguousMeta(grad.dtype, {in.sym(6), grad.sizes[1]})};
}

// _embedding_bag_per_sample_weights_backward(grad, weight, indices, ...)
absl::StatusOr<TensorMetas> InferWeightsBackward(const InferInput& in) {
  return TensorMetas{
      ContiguousMeta(in.tensor(0).dtype, {in.tensor(2).sizes[0]})};
}

constexpr absl::string_view kForward =
    "(Tensor weight, Tensor indices, Tensor offsets, bool "
    "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
    "per_sample_weights=None, bool include_last_offset=False, int "
    "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)";

constexpr OpRow kRows[] = {
    {"aten._embedding_bag.default", kForward, InferEmbeddingBag, kDecompose},
    {"aten._embedding_bag_forward_only.default", kForward, InferEmbeddingBag,
     kDecompose},
    {"aten._embedding_bag_backward.default",
     "(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor "
     "bag_size, Tensor maximum_indices, SymInt num_weights, bool "
     "scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, "
     "int padding_idx=-1) -> Tensor",
     InferBackward, kDecompose},
    {"aten._embedding_bag_per_sample_weights_backward.default",
     "(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, Tensor "
     "offset2bag, int mode, int padding_idx=-1) -> Tensor",
     InferWeightsBackward, kDecompose},
};

}  // namespace

absl::Span<const OpRow> EmbeddingOps() { return kRows; }

}  // namespace kiln

#include "compiler/loop/image_products.h"

#include <algorithm>

#include "compiler/config/target.h"

namespace kiln {
namespace {

bool AllAre(const Argument& argument, int64_t number) {
  const auto is = [&](const Argument& item) {
    return item == Argument(number);
  };
  if (!argument.is_list()) return is(argument);
  return std::all_of(argument.list().begin(), argument.list().end(), is);
}

}  // namespace

bool IsConvolution(const Node& node) {
  return node.op->name == "aten.convolution.default";
}
bool IsConvolutionBackward(const Node& node) {
  return node.op->name == "aten.convolution_backward.default";
}

bool IsComputedAsItLies(const Graph& graph, const Node& node) {
  if (graph.device != DeviceType::kCpu || !IsConvolution(node) ||
      !(node.args[6] == Argument(false))) {
    return false;
  }
  const TensorMeta& image = graph.meta(node.args[0].value());
  if (image.dtype != DType::kFloat32) return false;
  const DimVector& weights = graph.meta(node.args[1].value()).sizes;
  const Argument& groups = node.args[8];
  if (!(groups == Argument(1))) {
    return groups == Argument(image.sizes[1]) && image.sizes[1] == weights[0];
  }
  return std::all_of(weights.begin() + 2, weights.end(),
                     [](const SymExpr& size) { return size.Is(1); });
}

bool IsImageProduct(const Graph& graph, const Node& node) {
  const bool backward = IsConvolutionBackward(node);
  if (graph.device != DeviceType::kCuda || !(backward || IsConvolution(node)))
    return false;
  // Stride, padding, dilation, transposed, output padding, groups.
  const size_t first = backward ? 4 : 3;
  const TensorMeta& image = graph.meta(node.args[backward ? 1 : 0].value());
  const DimVector& weights =
      graph.meta(node.args[backward ? 2 : 1].value()).sizes;
  if (!AllAre(node.args[first], 1) || !AllAre(node.args[first + 1], 0) ||
      !(node.args[first + 3] == Argument(false)) ||
      !(node.args[first + 5] == Argument(1)) ||
      !std::all_of(weights.begin() + 2, weights.end(),
                   [](const SymExpr& size) { return size.Is(1); })) {
    return false;
  }
  if (!IsHalf(image.dtype) && image.dtype != DType::kFloat32) return false;
  int64_t bytes = SizeInBytes(image.dtype);
  for (size_t d = 2; d < image.sizes.size(); ++d) {
    if (!image.sizes[d].is_constant()) return false;
    bytes *= image.sizes[d].constant();
  }
  return bytes > 0 && bytes % kMaxAccessBytes == 0;
}

}  // namespace kiln

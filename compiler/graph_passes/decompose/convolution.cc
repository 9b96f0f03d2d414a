// The gradient of a convolution's bias is a sum, and no library call.

#include <utility>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

// The operator stays, without the bias; it comes here only when one is asked
// for (see NeedsDecomposition).
Parts ConvolutionBackward(Decomposition& d) {
  Emitter& e = d.e;
  const std::vector<bool> mask = d.Bools("output_mask");
  Parts parts(3);
  if (mask[0] || mask[1]) {
    Emitter::Args args;
    for (const Param& param : d.op().schema.params) {
      args.push_back(d.Get(param.name));
    }
    args.back() = Argument::List{bool{mask[0]}, bool{mask[1]}, false};
    const auto gradients = e.CallAll(d.op(), std::move(args));
    for (int i = 0; i < 2; ++i) {
      if (mask[i] && gradients.size() > 1) parts[i] = gradients[i];
    }
  }
  if (mask[2]) {
    const ValueId g = d.Compute("grad_output");
    parts[2] = e.Sum(g, OtherDims({1}, e.rank(g)), Emitter::Keep::kNo);
  }
  return parts;
}

constexpr DecomposeRow kRows[] = {
    {"aten.convolution_backward.default", ConvolutionBackward},
};

}  // namespace

absl::Span<const DecomposeRow> ConvolutionDecompositions() { return kRows; }

}  // namespace kiln

// What no library's convolution takes: the gradient of a bias, which is a sum,
// and a transposed convolution padded past its result by a stride or more.

#include <algorithm>
#include <utility>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

// Of a transposed convolution: the whole strides in its output padding, and the
// rest. cuDNN knows the padding as what a division by the stride left over.
struct OutputPadding {
  std::vector<int64_t> strides, rest;  // a dimension each
  bool plain = true;                   // no whole stride
};

// A list of one item counts for all dimensions.
int64_t ItemOf(const Argument& list, size_t i) {
  const Argument::List& items = list.list();
  return items[std::min(i, items.size() - 1)].sym().constant();
}

OutputPadding Split(const Argument& stride, const Argument& transposed,
                    const Argument& padding, size_t spatial) {
  OutputPadding split;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t step = ItemOf(stride, i);
    const int64_t rows = transposed == Argument(true) ? ItemOf(padding, i) : 0;
    split.strides.push_back(rows / step);
    split.rest.push_back(rows % step);
    split.plain = split.plain && rows < step;
  }
  return split;
}

OutputPadding Split(const Decomposition& d, int spatial) {
  return Split(d.Get("stride"), d.Get("transposed"), d.Get("output_padding"),
               spatial);
}

// Whether a node's output padding has whole strides in it.
bool IsPaddedFar(const Node& node, const TensorMeta&, const PassEnv&) {
  const auto arg = [&](absl::string_view name) -> const Argument& {
    size_t at = 0;
    while (node.op->schema.params[at].name != name) ++at;
    return node.args[at];
  };
  const size_t spatial = std::max(arg("stride").list().size(),
                                  arg("output_padding").list().size());
  return !Split(arg("stride"), arg("transposed"), arg("output_padding"),
                spatial)
              .plain;
}

// The last argument is the mask of what is asked for.
bool AsksForBiasOrIsPaddedFar(const Node& node, const TensorMeta& result,
                              const PassEnv& env) {
  return node.args.back().list()[2] == Argument(true) ||
         IsPaddedFar(node, result, env);
}

// `x` with a row of zeros behind it for each whole stride: they add nothing to
// the result but its size.
ValueId PadBehind(Emitter& e, ValueId x, const OutputPadding& padding) {
  Argument::List pairs;  // from the last dimension on
  for (size_t i = padding.strides.size(); i-- > 0;) {
    pairs.push_back(0);
    pairs.push_back(padding.strides[i]);
  }
  return e.Call("aten.constant_pad_nd.default", {x, std::move(pairs), 0});
}

// The node's arguments, but on `x` and with what is left of the padding.
Emitter::Args PaddedArgs(const Decomposition& d, ValueId x,
                         const OutputPadding& padding) {
  Emitter::Args args;
  for (const Param& param : d.op().schema.params) {
    args.push_back(d.Get(param.name));
    if (param.name == "input") args.back() = x;
    if (param.name != "output_padding" || padding.plain) continue;
    Argument::List rest(padding.rest.begin(), padding.rest.end());
    args.back() = std::move(rest);
  }
  return args;
}

Parts Convolution(Decomposition& d) {
  const ValueId x = d.Tensor("input");
  const OutputPadding padding = Split(d, d.e.rank(x) - 2);
  return {d.e.Call(d.op(), PaddedArgs(d, PadBehind(d.e, x, padding), padding))};
}

// The operator stays, without the bias.
Parts ConvolutionBackward(Decomposition& d) {
  Emitter& e = d.e;
  const std::vector<bool> mask = d.Bools("output_mask");
  const ValueId x = d.Tensor("input");
  const OutputPadding padding = Split(d, e.rank(x) - 2);
  Parts parts(3);
  if (mask[0] || mask[1]) {
    Emitter::Args args =
        PaddedArgs(d, padding.plain ? x : PadBehind(e, x, padding), padding);
    args.back() = Argument::List{bool{mask[0]}, bool{mask[1]}, false};
    const auto gradients = e.CallAll(d.op(), std::move(args));
    for (int i = 0; i < 2; ++i) {
      if (mask[i] && gradients.size() > 1) parts[i] = gradients[i];
    }
    for (int i = 2; parts[0].has_value() && i < e.rank(x); ++i) {
      if (padding.strides[i - 2] > 0)
        parts[0] = e.Slice(*parts[0], i, 0, e.meta(x).sizes[i], 1);
    }
  }
  if (mask[2]) {
    const ValueId g = d.Compute("grad_output");
    parts[2] = e.Sum(g, OtherDims({1}, e.rank(g)), Emitter::Keep::kNo);
  }
  return parts;
}

constexpr DecomposeRow kRows[] = {
    {"aten.convolution.default", Convolution, IsPaddedFar},
    {"aten.convolution_backward.default", ConvolutionBackward,
     AsksForBiasOrIsPaddedFar},
};

}  // namespace

absl::Span<const DecomposeRow> ConvolutionDecompositions() { return kRows; }

}  // namespace kiln

#include "compiler/loop/price_layouts.h"

#include <algorithm>
#include <variant>

#include "absl/strings/string_view.h"
#include "compiler/graph/layout_rules.h"
#include "compiler/graph/op_table.h"
#include "compiler/loop/image_products.h"

namespace kiln {
namespace {

// Views that keep the number and the order of dimensions.
constexpr absl::string_view kKeepDimensions[] = {
    "aten.slice.Tensor",        "aten.narrow.default",
    "aten.split.Tensor",        "aten.split_with_sizes.default",
    "aten.chunk.default",       "aten.tensor_split.sections",
    "aten.detach.default",      "aten.alias.default",
    "aten.expand.default",      "aten.split.sizes",
    "aten.unsafe_split.Tensor", "aten.unsafe_chunk.default"};

class LayoutPricer {
 public:
  LayoutPricer(const Graph& graph, const std::vector<bool>& marked)
      : graph_(graph),
        marked_(marked),
        read_(graph.num_values()),
        copied_(graph.num_values()) {}

  LayoutBytes Run() {
    for (const Node& node : graph_.nodes())
      Graph::VisitValues(node, [&](ValueId v) { read_[v.index] = true; });
    for (const GraphOutput& output : graph_.outputs)
      if (const auto* v = std::get_if<ValueId>(&output.what))
        read_[v->index] = true;
    for (const Node& node : graph_.nodes()) {
      if (IsConvolution(node) || IsConvolutionBackward(node)) {
        AddConvolution(node);
      } else if (node.op->handling == Handling::kLower) {
        AddLoop(node);
      }
    }
    for (const GraphOutput& output : graph_.outputs) {
      if (const auto* v = std::get_if<ValueId>(&output.what)) {
        TensorMeta due = graph_.meta(*v);
        if (!output.strides.empty()) due.strides = output.strides;
        if (IsMarked(*v) && !IsChannelsLast(due, graph_.shapes))
          bytes_.added += BytesOf(*v);
      }
    }
    return bytes_;
  }

 private:
  int64_t BytesOf(ValueId v) const {
    const TensorMeta& meta = graph_.meta(v);
    int64_t bytes = SizeInBytes(meta.dtype);
    for (const SymExpr& size : meta.sizes) bytes *= graph_.shapes.Hint(size);
    return bytes;
  }

  bool IsMarked(ValueId v) const {
    const std::optional<ValueId> shown = ShownResult(graph_, v);
    return shown.has_value() && marked_[shown->index];
  }
  // Whether the value would have to be copied to be channels-last.
  bool LiesOtherwise(ValueId v) const {
    return !IsMarked(v) && !IsChannelsLast(graph_.meta(v), graph_.shapes);
  }

  // oneDNN takes each array in any layout.
  void AddConvolutionOnCpu(const Node& node) {
    if (!IsComputedAsItLies(graph_, node)) return;
    const ValueId image = node.args[0].value();
    const ValueId result = node.results[0];
    if (marked_[result.index] && !LiesOtherwise(image))
      bytes_.saved += BytesOf(image) + BytesOf(result);
  }

  void AddConvolution(const Node& node) {
    if (graph_.device == DeviceType::kCpu) return AddConvolutionOnCpu(node);
    const bool backward = IsConvolutionBackward(node);
    const bool product = IsImageProduct(graph_, node);
    int64_t read = 0;
    const size_t operands = backward ? 3 : 2;
    const bool lies_so =
        std::any_of(node.results.begin(), node.results.end(),
                    [&](ValueId result) { return marked_[result.index]; });
    for (size_t i = 0; i < operands; ++i) {
      const ValueId v = node.args[i].value();
      read += BytesOf(v);
      if (!lies_so || copied_[v.index] || !LiesOtherwise(v)) continue;
      copied_[v.index] = true;
      bytes_.added += BytesOf(v);
    }
    if (!lies_so) return;
    if (!backward) {
      if (!product) bytes_.saved += read + BytesOf(node.results[0]);
      return;
    }
    // A gradient reads two of the three arrays and has the sizes of the third.
    for (size_t r = 0; r < node.results.size() && r < 2; ++r) {
      const bool wanted = graph_.meta(node.results[r]).defined;
      if (wanted && !(r == 0 && product)) bytes_.saved += read;
    }
  }

  void AddLoop(const Node& node) {
    int rank = 0;
    for (const ValueId result : node.results)
      if (marked_[result.index]) rank = graph_.meta(result).rank();
    Graph::VisitValues(node, [&](ValueId v) {
      if (IsMarked(v)) rank = graph_.meta(v).rank();
    });
    if (rank == 0) return;
    const auto add = [&](ValueId v) {
      if (graph_.meta(v).rank() == rank && LiesOtherwise(v))
        bytes_.added += BytesOf(v) / 2;
    };
    for (const ValueId result : node.results)
      if (read_[result.index]) add(result);
    Graph::VisitValues(node, add);
  }

  const Graph& graph_;
  const std::vector<bool>& marked_;
  std::vector<bool> read_;    // values that a node or the caller reads
  std::vector<bool> copied_;  // values that are copied before a convolution
  LayoutBytes bytes_;
};

}  // namespace

std::optional<ValueId> ShownResult(const Graph& graph, ValueId v) {
  for (;;) {
    const uint32_t producer = graph.value(v).node;
    if (producer == Value::kNoNode) return std::nullopt;
    const Node& node = graph.nodes()[producer];
    if (node.op->handling != Handling::kView) return v;
    if (std::find(std::begin(kKeepDimensions), std::end(kKeepDimensions),
                  node.op->name) == std::end(kKeepDimensions)) {
      return std::nullopt;
    }
    v = node.args[0].value();
  }
}

LayoutBytes PriceChannelsLast(const Graph& graph,
                              const std::vector<bool>& marked) {
  return LayoutPricer(graph, marked).Run();
}

}  // namespace kiln

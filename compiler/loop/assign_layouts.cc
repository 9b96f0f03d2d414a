#include "compiler/loop/assign_layouts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/loop/image_products.h"
#include "compiler/loop/price_layouts.h"

namespace kiln {
namespace {

bool HasImageRank(const TensorMeta& meta) {
  return meta.rank() == 4 || meta.rank() == 5;
}

class LayoutSpread {
 public:
  LayoutSpread(const Graph& graph, const ArtifactOptions& options)
      : graph_(graph),
        options_(options),
        marked_(graph.num_values()),
        read_(graph.num_values()),
        frozen_(graph.num_values()) {}

  std::vector<bool> Run() {
    if (!Seed()) return std::move(marked_);
    Freeze();
    while (SpreadForward() || SpreadBackward()) {
    }
    LeaveWhatOnlyLeaves();
    const LayoutBytes bytes = PriceChannelsLast(graph_, marked_);
    if (bytes.saved == 0 || bytes.saved < bytes.added)
      marked_.assign(marked_.size(), false);
    return std::move(marked_);
  }

 private:
  bool OnCpu() const { return graph_.device == DeviceType::kCpu; }

  bool GoesChannelsLast(const Node& node) const {
    if (!(IsConvolution(node) || IsConvolutionBackward(node))) return false;
    const TensorMeta& image = graph_.meta(node.args[0].value());
    if (!HasImageRank(image)) return false;
    if (OnCpu()) return image.dtype == DType::kFloat32;
    return IsHalf(image.dtype) ||
           (image.dtype == DType::kFloat32 && options_.allow_tf32_convolution);
  }

  bool Seed() {
    if (!options_.layout_optimization) return false;
    if (OnCpu()) return SeedOnCpu();
    return graph_.device == DeviceType::kCuda && SeedOnCuda();
  }

  // A join of images along their channels. Where those lie channels-last, a loop finds
  // what it reads lane by lane.
  bool JoinsChannels(const Node& node) const {
    return node.op->name == "aten.cat.default" &&
           HasImageRank(graph_.meta(node.results[0])) &&
           (node.args[1] == Argument(1) ||
            node.args[1] == Argument(1 - graph_.meta(node.results[0]).rank()));
  }

  // Collects the images that convolutions compute and read. Returns false if there are
  // none, if there are gradients, of which the library computes most in its own
  // layouts, or if images are joined.
  bool SeedOnCpu() {
    for (const Node& node : graph_.nodes()) {
      if (JoinsChannels(node)) return false;
      if (!GoesChannelsLast(node)) continue;
      if (IsConvolutionBackward(node)) return false;
      const std::optional<ValueId> base =
          ShownResult(graph_, node.args[0].value());
      if (base.has_value()) seeds_.push_back(*base);
      seeds_.push_back(node.results[0]);
    }
    return !seeds_.empty();
  }

  // Collects what convolutions compute and read. Returns false if there are none, or if
  // one has groups.
  bool SeedOnCuda() {
    bool found = false;
    for (const Node& node : graph_.nodes()) {
      if (!GoesChannelsLast(node)) continue;
      if (!(node.args[IsConvolution(node) ? 8 : 9] == Argument(int64_t{1})))
        return false;
      found = true;
      const size_t operands = IsConvolution(node) ? 2 : 3;
      for (size_t i = 0; i < operands; ++i) {
        const std::optional<ValueId> base =
            ShownResult(graph_, node.args[i].value());
        if (base.has_value()) seeds_.push_back(*base);
      }
      for (size_t r = 0; r < node.results.size() && r < 2; ++r) {
        if (graph_.meta(node.results[r]).defined)
          seeds_.push_back(node.results[r]);
      }
    }
    return found;
  }

  // The strides of an as_strided refer to the layout that the metas have.
  void Freeze() {
    for (const Node& node : graph_.nodes()) {
      if (node.op->name != "aten.as_strided.default") continue;
      for (ValueId v = node.args[0].value();;) {
        frozen_[v.index] = true;
        const uint32_t producer = graph_.value(v).node;
        if (producer == Value::kNoNode) break;
        const Node& view = graph_.nodes()[producer];
        if (view.op->handling != Handling::kView) break;
        v = view.args[0].value();
      }
    }
    for (const ValueId v : seeds_) Mark(v);
  }

  bool Mark(ValueId v) {
    if (marked_[v.index] || frozen_[v.index] || !HasImageRank(graph_.meta(v)))
      return false;
    marked_[v.index] = true;
    return true;
  }

  // Whether a loop reads or computes an image of its rank.
  bool Touches(const Node& node) const {
    for (const ValueId result : node.results)
      if (marked_[result.index]) return true;
    bool found = false;
    Graph::VisitValues(node, [&](ValueId v) {
      const std::optional<ValueId> base = ShownResult(graph_, v);
      found = found || (base.has_value() && marked_[base->index]);
    });
    return found;
  }

  bool Spread(const Node& node) {
    if (node.op->handling != Handling::kLower || !Touches(node)) return false;
    bool changed = false;
    int rank = 0;
    for (const ValueId result : node.results) {
      if (!HasImageRank(graph_.meta(result))) continue;
      rank = graph_.meta(result).rank();
      if (Mark(result)) changed = true;
    }
    Graph::VisitValues(node, [&](ValueId v) {
      const std::optional<ValueId> base = ShownResult(graph_, v);
      if (base.has_value() && graph_.meta(*base).rank() == rank)
        if (Mark(*base)) changed = true;
    });
    return changed;
  }
  bool SpreadForward() {
    bool changed = false;
    for (const Node& node : graph_.nodes())
      if (Spread(node)) changed = true;
    return changed;
  }
  bool SpreadBackward() {
    bool changed = false;
    const std::vector<Node>& nodes = graph_.nodes();
    for (size_t i = nodes.size(); i-- > 0;)
      if (Spread(nodes[i])) changed = true;
    return changed;
  }

  // Whether a view merges the channels with another dimension.
  bool Flattens(const Node& node) const {
    if (node.op->handling != Handling::kView ||
        !ShownResult(graph_, node.args[0].value()))
      return false;
    const DimVector& from = graph_.meta(node.args[0].value()).sizes;
    const DimVector& to = graph_.meta(node.results[0]).sizes;
    return to.size() < from.size() && (to.size() < 2 || to[1] != from[1]) &&
           std::any_of(from.begin() + 2, from.end(),
                       [](const SymExpr& size) { return !size.Is(1); });
  }

  // If nothing needs the result of a loop channels-last, the loop writes it with the
  // meta's strides, and so does oneDNN.
  void LeaveWhatOnlyLeaves() {
    for (const Node& node : graph_.nodes()) {
      if (Flattens(node)) continue;
      Graph::VisitValues(node, [&](ValueId v) {
        const std::optional<ValueId> base = ShownResult(graph_, v);
        if (base.has_value() && node.op->handling != Handling::kView)
          read_[base->index] = true;
      });
    }
    for (const Node& node : graph_.nodes()) {
      if (node.op->handling != Handling::kLower && !OnCpu()) continue;
      for (const ValueId result : node.results)
        if (!read_[result.index]) marked_[result.index] = false;
    }
  }

  const Graph& graph_;
  const ArtifactOptions& options_;
  std::vector<bool> marked_;
  std::vector<bool> read_;    // by a loop or a step
  std::vector<bool> frozen_;  // behind an as_strided
  std::vector<ValueId> seeds_;
};

}  // namespace

std::vector<bool> ChannelsLastResults(const Graph& graph,
                                      const ArtifactOptions& options) {
  return LayoutSpread(graph, options).Run();
}

}  // namespace kiln

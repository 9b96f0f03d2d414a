#include <utility>

#include "compiler/graph/graph.h"
#include "compiler/graph/infer_meta.h"

namespace kiln {
namespace {

constexpr ValueId kUnmapped{~0u};

}  // namespace

GraphRewriter::GraphRewriter(Graph& graph) : graph_(graph) {
  old_nodes_ = std::move(graph.nodes_);
  old_values_ = std::move(graph.values_);
  graph.nodes_.clear();
  graph.values_.clear();
  graph.nodes_.reserve(old_nodes_.size() + old_nodes_.size() / 2);
  graph.values_.reserve(old_values_.size() + old_values_.size() / 2);
  map_.assign(old_values_.size(), kUnmapped);
  // Inputs and constants stay as they are, in front.
  for (uint32_t i = 0; i < old_values_.size(); ++i) {
    if (old_values_[i].node != Value::kNoNode) continue;
    map_[i] = CopyValue(old_values_[i], Value::kNoNode, 0);
  }
  for (GraphInput& input : graph.inputs) {
    if (ValueId* id = std::get_if<ValueId>(&input.what)) *id = Map(*id);
  }
  for (GraphConstant& constant : graph.constants) {
    constant.value = Map(constant.value);
  }
}

ValueId GraphRewriter::CopyValue(const Value& old, uint32_t node,
                                 uint32_t result) {
  Value& value = graph_.values_.emplace_back(old);
  value.node = node;
  value.result = result;
  return ValueId{static_cast<uint32_t>(graph_.values_.size() - 1)};
}

ValueId GraphRewriter::Map(ValueId old) const { return map_[old.index]; }

Argument GraphRewriter::Map(const Argument& old) const {
  if (old.is_value()) return Map(old.value());
  if (!old.is_list()) return old;
  Argument::List items;
  items.reserve(old.list().size());
  for (const Argument& item : old.list()) items.push_back(Map(item));
  return Argument(std::move(items));
}

void GraphRewriter::Attribute(uint32_t i) {
  for (; attributed_ < graph_.nodes_.size(); ++attributed_) {
    graph_.nodes_[attributed_].client_nodes = old_nodes_[i].client_nodes;
  }
}

void GraphRewriter::Keep(uint32_t i) {
  Attribute(i);
  const Node& old = old_nodes_[i];
  const uint32_t index = static_cast<uint32_t>(graph_.nodes_.size());
  Node& node = graph_.nodes_.emplace_back();
  node.op = old.op;
  node.client_nodes = old.client_nodes;
  node.args.reserve(old.args.size());
  for (const Argument& arg : old.args) node.args.push_back(Map(arg));

  bool same_metas = true;
  Graph::VisitValues(old, [&](ValueId id) {
    same_metas = same_metas && graph_.meta(Map(id)) == old_meta(id);
  });
  TensorMetas metas;
  if (!same_metas) {
    absl::StatusOr<TensorMetas> inferred = InferMeta(
        *node.op, node.args,
        [this](const Argument& a) -> const TensorMeta& {
          return graph_.meta(a.value());
        },
        graph_.shapes, graph_.device);
    // Sizes and dtypes are those of before, so inference agrees again; were it
    // not so, the verifier says it (G4).
    if (inferred.ok()) metas = *std::move(inferred);
  }
  for (uint32_t r = 0; r < old.results.size(); ++r) {
    const ValueId was = old.results[r];
    const ValueId now = CopyValue(old_values_[was.index], index, r);
    if (r < metas.size()) graph_.values_[now.index].meta = std::move(metas[r]);
    map_[was.index] = now;
    node.results.push_back(now);
  }
  ++attributed_;
}

void GraphRewriter::Replace(uint32_t i, absl::Span<const ValueId> results) {
  Attribute(i);
  const Node& old = old_nodes_[i];
  for (size_t r = 0; r < results.size() && r < old.results.size(); ++r) {
    map_[old.results[r].index] = results[r];
    // The new value goes on under the old one's name, if it has none yet.
    Value& value = graph_.values_[results[r].index];
    if (value.name.empty() && value.node != Value::kNoNode) {
      value.name = old_values_[old.results[r].index].name;
    }
  }
}

void GraphRewriter::Finish() {
  for (GraphOutput& output : graph_.outputs) {
    if (ValueId* id = std::get_if<ValueId>(&output.what)) *id = Map(*id);
  }
  for (Mutation& mutation : graph_.mutations) {
    mutation.input = Map(mutation.input);
    mutation.value = Map(mutation.value);
  }
}

}  // namespace kiln

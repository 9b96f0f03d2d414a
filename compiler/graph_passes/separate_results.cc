#include "compiler/graph_passes/separate_results.h"

#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/graph_passes/emitter.h"

namespace kiln {
namespace {

// The value whose memory `v` is, or is a view of.
ValueId BaseOf(const Graph& graph, ValueId v) {
  for (;;) {
    const uint32_t producer = graph.value(v).node;
    if (producer == Value::kNoNode) return v;
    const Node& node = graph.nodes()[producer];
    const bool shares = node.op->handling == Handling::kView ||
                        node.op->handling == Handling::kMutate;
    if (!shares || !node.args[0].is_value()) return v;
    v = node.args[0].value();
  }
}

// Inputs by their place, which no pass changes; other values after them.
class MemoryNumbers {
 public:
  explicit MemoryNumbers(const Graph& graph)
      : num_inputs_(static_cast<uint32_t>(graph.inputs.size())) {
    for (uint32_t k = 0; k < num_inputs_; ++k) {
      const auto* id = std::get_if<ValueId>(&graph.inputs[k].what);
      if (id != nullptr) input_.emplace(id->index, k);
    }
  }

  uint32_t Of(ValueId base) const {
    const auto input = input_.find(base.index);
    return input != input_.end() ? input->second : num_inputs_ + base.index;
  }
  bool IsInput(ValueId base) const { return input_.contains(base.index); }

 private:
  uint32_t num_inputs_;
  absl::flat_hash_map<uint32_t, uint32_t> input_;  // value -> place
};

// Moves outputs that share a base with others to copies of it.
class Separation {
 public:
  Separation(Graph& graph, const ResultMemories& due)
      : graph_(graph), due_(due), numbers_(graph), e_(graph) {
    for (const ResultMemory& result : due) {
      if (result.view) viewed_.insert(result.memory);
    }
  }

  absl::StatusOr<Changed> Run() {
    bool changed = false;
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      ValueId* id = std::get_if<ValueId>(&graph_.outputs[k].what);
      if (id == nullptr) continue;
      const ValueId base = BaseOf(graph_, *id);
      if (OwnsOrTakes(base, due_[k].memory)) continue;
      *id = Apart(*id, base, due_[k].memory);
      changed = true;
    }
    RETURN_IF_ERROR(e_.status());
    return changed ? Changed::kYes : Changed::kNo;
  }

 private:
  // An input's memory is that input's, any other that of the first output that
  // asks for it.
  bool OwnsOrTakes(ValueId base, uint32_t memory) {
    const bool constant =
        graph_.value(base).node == Value::kNoNode && !numbers_.IsInput(base);
    if (constant) return true;
    if (numbers_.IsInput(base)) return numbers_.Of(base) == memory;
    return owner_.emplace(base.index, memory).first->second == memory;
  }

  // `v` in the memory number `memory`, which is none of its base's.
  ValueId Apart(ValueId v, ValueId base, uint32_t memory) {
    // Where views of this memory are given away, too, all of it is copied and
    // all views are taken of the one copy.
    if (!viewed_.contains(memory)) return CopyOf(v, memory);
    return ViewAgain(v, base, CopyOf(base, memory));
  }

  ValueId CopyOf(ValueId v, uint32_t memory) {
    const auto [at, is_new] = copies_.try_emplace({v.index, memory});
    if (is_new) at->second = e_.Call("aten.clone.default", {v});
    return at->second;
  }

  // What `v` shows of `base`, shown of `copy`.
  ValueId ViewAgain(ValueId v, ValueId base, ValueId copy) {
    if (v == base || !e_.status().ok()) return copy;
    const Value& value = graph_.value(v);
    const uint32_t result = value.result;
    const Node& view = graph_.nodes()[value.node];
    const OpDef& op = *view.op;
    Emitter::Args args(view.args.begin(), view.args.end());
    args[0] = ViewAgain(args[0].value(), base, copy);
    const auto views = e_.CallAll(op, std::move(args));
    return result < views.size() ? views[result] : v;
  }

  Graph& graph_;
  const ResultMemories& due_;
  const MemoryNumbers numbers_;
  Emitter e_;
  absl::flat_hash_set<uint32_t> viewed_;  // memories with views among outputs
  absl::flat_hash_map<uint32_t, uint32_t> owner_;  // base -> memory
  // (value, memory) -> the copy that it has there
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, ValueId> copies_;
};

}  // namespace

ResultMemories MemoriesOfResults(const Graph& graph) {
  const MemoryNumbers numbers(graph);
  ResultMemories memories(graph.outputs.size());
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const auto* id = std::get_if<ValueId>(&graph.outputs[k].what);
    if (id == nullptr) continue;
    const ValueId base = BaseOf(graph, *id);
    memories[k] = {numbers.Of(base), base != *id};
  }
  return memories;
}

absl::StatusOr<Changed> SeparateResults(Graph& graph,
                                        const ResultMemories& due) {
  return Separation(graph, due).Run();
}

}  // namespace kiln

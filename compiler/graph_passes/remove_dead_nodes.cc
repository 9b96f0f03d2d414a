#include "compiler/graph_passes/remove_dead_nodes.h"

#include <variant>
#include <vector>

namespace kiln {

namespace {

// Whether a node counts though nobody reads its results: it writes an input, or
// ends the run where what it asserts does not hold.
bool HasEffect(const OpDef& op) {
  return op.handling == Handling::kMutate || op.schema.results.empty();
}

}  // namespace

absl::StatusOr<Changed> RemoveDeadNodes(Graph& graph, const PassEnv&) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<bool> live(nodes.size(), false);
  const auto mark = [&](ValueId id) {
    const uint32_t node = graph.value(id).node;
    if (node != Value::kNoNode) live[node] = true;
  };
  for (const GraphOutput& output : graph.outputs) {
    if (const ValueId* id = std::get_if<ValueId>(&output.what)) mark(*id);
  }
  for (const Mutation& mutation : graph.mutations) mark(mutation.value);
  // Operands stand before their users, so one walk backwards reaches all.
  for (size_t i = nodes.size(); i-- > 0;) {
    if (HasEffect(*nodes[i].op)) live[i] = true;
    if (live[i]) Graph::VisitValues(nodes[i], mark);
  }
  return graph.RetainNodes(live) ? Changed::kYes : Changed::kNo;
}

}  // namespace kiln

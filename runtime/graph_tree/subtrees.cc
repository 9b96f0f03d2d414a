#include "runtime/graph_tree/subtrees.h"

#include <iterator>
#include <utility>

namespace kiln::graph_tree {
namespace {

void Move(Nodes& from, Nodes& to) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

void TakeAll(Children& children, Nodes& nodes) {
  for (auto& [id, list] : children) Move(list, nodes);
  children.clear();
}

void TakeOf(absl::Span<const int> functions, Children& children,
            Followers& followers, Nodes& nodes) {
  for (const int id : functions) {
    const auto at = children.find(id);
    if (at != children.end()) {
      Move(at->second, nodes);
      children.erase(at);
    }
    followers.refused_mutation.erase(id);
    followers.unexpected_rerecords.erase(id);
  }
}

void AddAll(const Children& children, std::vector<Node*>& nodes) {
  for (const auto& [id, list] : children) {
    for (const std::unique_ptr<Node>& node : list) nodes.push_back(node.get());
  }
}

}  // namespace

Nodes TakeNodes(Children& children) {
  Nodes nodes;
  TakeAll(children, nodes);
  return nodes;
}

Nodes TakeNodesOf(absl::Span<const int> functions, Children& roots,
                  Followers& first) {
  Nodes nodes;
  TakeOf(functions, roots, first, nodes);
  std::vector<Node*> kept;
  AddAll(roots, kept);
  while (!kept.empty()) {
    Node& node = *kept.back();
    kept.pop_back();
    TakeOf(functions, node.children, node.followers, nodes);
    AddAll(node.children, kept);
  }
  return nodes;
}

void DropNodes(Nodes nodes) {
  while (!nodes.empty()) {
    const std::unique_ptr<Node> node = std::move(nodes.back());
    nodes.pop_back();
    TakeAll(node->children, nodes);
  }
}

}  // namespace kiln::graph_tree

#include "tests/runtime/graph_tree/tree_rig.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln::graph_tree {
namespace {

std::string ShapeOf(std::vector<const Node*> nodes) {
  std::sort(nodes.begin(), nodes.end(),
            [](const Node* a, const Node* b) { return a->id < b->id; });
  std::string shape;
  for (const Node* node : nodes) {
    absl::StrAppend(&shape, shape.empty() ? "" : " ", node->id);
    std::vector<const Node*> children;
    for (const auto& [function, list] : node->children) {
      for (const auto& child : list) children.push_back(child.get());
    }
    if (!children.empty()) absl::StrAppend(&shape, "(", ShapeOf(children), ")");
  }
  return shape;
}

}  // namespace

std::string TreeRig::Shape() const { return ShapeOf(tree.Roots()); }

std::vector<std::string> TreeRig::Notes() {
  std::vector<std::string> texts;
  for (TreeNote& note : tree.TakeNotes()) {
    if (note.kind == TreeNote::Kind::kRerecord) continue;
    texts.push_back(std::move(note.text));
  }
  return texts;
}

FakeBody Scale(int64_t a, int64_t b) {
  return [a, b](FakeFramework& framework, FakeTensors inputs) -> FakeTensors {
    const FakeTensorPtr x = std::exchange(inputs[0], nullptr);
    return {framework.Affine({x}, a, b, x->cells())};
  };
}

}  // namespace kiln::graph_tree

#include "compiler/graph_passes/merge_common_nodes.h"

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "compiler/graph/op_table.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// What makes two nodes one. The hash never orders anything.
struct NodeKey {
  const OpDef* op;
  absl::InlinedVector<Argument, 4> args;

  friend bool operator==(const NodeKey& a, const NodeKey& b) {
    return a.op == b.op && a.args == b.args;
  }

  template <typename H>
  static H Combine(H h, const Argument& arg) {
    h = H::combine(std::move(h), arg.v.index());
    if (arg.is_value()) return H::combine(std::move(h), arg.value());
    if (const SymExpr* e = std::get_if<SymExpr>(&arg.v)) {
      return H::combine(std::move(h), *e);
    }
    if (const double* f = std::get_if<double>(&arg.v)) {
      return H::combine(std::move(h), std::bit_cast<uint64_t>(*f));
    }
    if (const bool* b = std::get_if<bool>(&arg.v)) {
      return H::combine(std::move(h), *b);
    }
    if (const DType* d = std::get_if<DType>(&arg.v)) {
      return H::combine(std::move(h), static_cast<int>(*d));
    }
    if (!arg.is_list()) return h;
    for (const Argument& item : arg.list()) h = Combine(std::move(h), item);
    return h;
  }

  template <typename H>
  friend H AbslHashValue(H h, const NodeKey& key) {
    h = H::combine(std::move(h), key.op->index);
    for (const Argument& arg : key.args) h = Combine(std::move(h), arg);
    return h;
  }
};

bool IsRandom(const OpDef& op) {
  static const OpDef& kDropout = KnownOp("aten.native_dropout.default");
  static const OpDef& kSeed = KnownOp("prims.inductor_seed.default");
  return &op == &kDropout || &op == &kSeed;
}

// Whether the order of the node's first two arguments, which are those of the new
// graph, means nothing, and is not that of the graph.
bool ShouldSwap(const OpDef& op, absl::Span<const Argument> args,
                const Graph& graph) {
  static const OpDef& kAdd = KnownOp("aten.add.Tensor");
  static const OpDef& kMul = KnownOp("aten.mul.Tensor");
  if (&op != &kAdd && &op != &kMul) return false;
  if (!args[0].is_value() || !args[1].is_value() ||
      args[0].value().index <= args[1].value().index) {
    return false;
  }
  if (&op == &kAdd && !(args[2] == Argument(SymExpr(1))))
    return false;  // alpha
  return graph.meta(args[0].value()) == graph.meta(args[1].value());
}

}  // namespace

absl::StatusOr<Changed> MergeCommonNodes(Graph& graph, const PassEnv&) {
  GraphRewriter rewriter(graph);
  absl::flat_hash_map<NodeKey, uint32_t> first;  // index of the new node
  first.reserve(rewriter.num_old_nodes());
  bool changed = false;
  for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
    const Node& old = rewriter.old_node(i);
    if (IsRandom(*old.op)) {
      rewriter.Keep(i);
      continue;
    }
    NodeKey key{old.op, {}};
    for (const Argument& arg : old.args) key.args.push_back(rewriter.Map(arg));
    const bool swap = ShouldSwap(*old.op, key.args, graph);
    if (swap) std::swap(key.args[0], key.args[1]);
    const auto [at, is_new] = first.emplace(
        std::move(key), static_cast<uint32_t>(graph.nodes().size()));
    changed = changed || swap || !is_new;
    if (is_new && !swap) {
      rewriter.Keep(i);
      continue;
    }
    if (is_new) {
      RETURN_IF_ERROR(graph
                          .AddNode(*old.op, Arguments(at->first.args.begin(),
                                                      at->first.args.end()))
                          .status());
    }
    rewriter.Replace(i, graph.nodes()[at->second].results);
  }
  rewriter.Finish();
  return changed ? Changed::kYes : Changed::kNo;
}

}  // namespace kiln

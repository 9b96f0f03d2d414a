#include "compiler/graph_passes/decompose_composites.h"

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/op_table.h"
#include "compiler/graph/refused_nodes.h"
#include "compiler/graph_passes/decompose/decomposition.h"
#include "compiler/graph_passes/emitter.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

std::vector<const DecomposeRow*> JoinFamilies() {
  std::vector<const DecomposeRow*> table(AllOps().size(), nullptr);
  for (absl::Span<const DecomposeRow> family :
       {ActivationDecompositions(), NormDecompositions(),
        SoftmaxDecompositions(), LossDecompositions(),
        StatisticsDecompositions(), MatmulDecompositions(),
        ConvolutionDecompositions(), AttentionDecompositions(),
        ForeachDecompositions(), MovementDecompositions(),
        PointwiseDecompositions(), PoolingDecompositions(),
        OrderDecompositions(), EmbeddingDecompositions(),
        FactoryDecompositions(), RearrangeDecompositions(),
        ScatterProductDecompositions()}) {
    for (const DecomposeRow& row : family) {
      const OpDef* op = FindOp(row.name);
      if (op != nullptr) table[op->index] = &row;
    }
  }
  return table;
}

// All that has a decomposition that takes it, and composites, which must have
// one.
bool NeedsDecomposition(const Node& node,
                        absl::FunctionRef<TensorMeta(ValueId)> meta_of,
                        const PassEnv& env) {
  const DecomposeRow* row = FindDecomposition(*node.op);
  if (row == nullptr) return node.op->handling == Handling::kDecompose;
  return row->takes == nullptr ||
         row->takes(node, meta_of(node.results[0]), env);
}

// Writes the parts of the i-th old node, and makes each result what it was:
// its dtype, and the strides that views of it rely on.
absl::Status Decompose(GraphRewriter& rewriter, uint32_t i,
                       const Target& target) {
  Emitter e(rewriter.graph());
  const Node& node = rewriter.old_node(i);
  const DecomposeRow* row = FindDecomposition(*node.op);
  if (row == nullptr) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(node.op->name, ": has no decomposition"));
  }
  std::vector<Argument> args;
  for (const Argument& arg : node.args) args.push_back(rewriter.Map(arg));
  std::vector<TensorMeta> metas;
  for (ValueId id : node.results) metas.push_back(rewriter.old_meta(id));
  Decomposition decomposition(*node.op, args, metas, target, e);
  const Parts parts = row->run(decomposition);
  if (e.status().ok() && parts.size() < metas.size()) {
    e.Fail(absl::InternalError(absl::StrCat(
        "found ", parts.size(), " parts, expected ", metas.size())));
  }
  RETURN_IF_ERROR(Annotate(e.status(), node.op->name));
  std::vector<ValueId> results;
  for (size_t r = 0; r < metas.size(); ++r) {
    if (!parts[r].has_value()) {
      results.push_back(ValueId{0});  // not defined: nobody reads it
      continue;
    }
    const ValueId narrow = e.ToDType(*parts[r], metas[r].dtype);
    results.push_back(e.WithStrides(narrow, metas[r].strides));
  }
  RETURN_IF_ERROR(Annotate(e.status(), node.op->name));
  rewriter.Replace(i, results);
  return absl::OkStatus();
}

// Values in place of a refused node's results, so that the nodes after it can be
// looked at. The graph is of no other use.
void StandIn(GraphRewriter& rewriter, uint32_t i) {
  std::vector<ValueId> results;
  for (const ValueId id : rewriter.old_node(i).results) {
    results.push_back(rewriter.graph().AddInput("", rewriter.old_meta(id), 1));
  }
  rewriter.Replace(i, results);
}

}  // namespace

const DecomposeRow* FindDecomposition(const OpDef& op) {
  static const std::vector<const DecomposeRow*>* const kTable =
      new std::vector<const DecomposeRow*>(JoinFamilies());
  return (*kTable)[op.index];
}

absl::StatusOr<Changed> DecomposeComposites(Graph& graph, const PassEnv& env) {
  bool any = false;
  for (const Node& node : graph.nodes()) {
    any = any || NeedsDecomposition(
                     node, [&](ValueId v) { return graph.meta(v); }, env);
  }
  if (!any) return Changed::kNo;
  GraphRewriter rewriter(graph);
  RefusedNodes refused;
  for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
    const Node& node = rewriter.old_node(i);
    const auto meta = [&](ValueId v) { return rewriter.old_meta(v); };
    if (!NeedsDecomposition(node, meta, env)) {
      rewriter.Keep(i);
      continue;
    }
    const absl::Status status = Decompose(rewriter, i, env.target);
    if (status.ok()) continue;
    if (!refused.Take(node.client_nodes, status)) return status;
    StandIn(rewriter, i);
  }
  RETURN_IF_ERROR(refused.ToStatus());
  rewriter.Finish();
  return Changed::kYes;
}

}  // namespace kiln

#include "compiler/graph_passes/scatter_upon_const.h"

#include <optional>
#include <vector>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/emitter.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The dimension scattered along, when the rewrite holds for the node.
std::optional<int64_t> ScatterDim(const Graph& graph, const Node& node) {
  static const OpDef& kScatter = KnownOp("aten.scatter.value");
  static const OpDef& kFull = KnownOp("aten.full.default");
  if (node.op != &kScatter) return std::nullopt;
  const ValueId base = node.args[0].value(), index = node.args[2].value();
  const uint32_t producer = graph.value(base).node;
  if (producer == Value::kNoNode || graph.nodes()[producer].op != &kFull) {
    return std::nullopt;
  }
  const DimVector& whole = graph.meta(base).sizes;
  const DimVector& picks = graph.meta(index).sizes;
  const int64_t rank = static_cast<int64_t>(whole.size());
  if (picks.size() != whole.size() || rank == 0) return std::nullopt;
  int64_t dim = node.args[1].sym().constant();
  if (dim < 0) dim += rank;
  for (int64_t d = 0; d < rank; ++d) {
    const SymExpr due = d == dim ? SymExpr(1) : whole[d];
    if (!graph.shapes.KnownEq(picks[d], due)) return std::nullopt;
  }
  return dim;
}

ValueId Choose(Emitter& e, ValueId base, int64_t dim, ValueId index,
               const Argument& value, const Argument& background) {
  const TensorMeta meta = e.meta(base);
  DimVector along = {meta.sizes[dim]};
  along.resize(meta.sizes.size() - dim, SymExpr(1));
  const ValueId places = e.View(e.Iota(meta.sizes[dim], DType::kInt64), along);
  return e.Where(e.Eq(places, index), e.Full({}, value, meta.dtype),
                 e.Full({}, background, meta.dtype));
}

}  // namespace

absl::StatusOr<Changed> ScatterUponConst(Graph& graph, const PassEnv&) {
  std::vector<std::optional<int64_t>> dims;
  int64_t found = 0;
  for (const Node& node : graph.nodes()) {
    dims.push_back(ScatterDim(graph, node));
    found += dims.back().has_value() ? 1 : 0;
  }
  if (found == 0) return Changed::kNo;
  GraphRewriter rewriter(graph);
  Emitter e(graph);
  for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
    if (!dims[i].has_value()) {
      rewriter.Keep(i);
      continue;
    }
    const Node& node = rewriter.old_node(i);
    const ValueId base = rewriter.Map(node.args[0].value());
    const Node& full = graph.nodes()[graph.value(base).node];
    const Argument background = full.args[1];
    const ValueId chosen =
        Choose(e, base, *dims[i], rewriter.Map(node.args[2].value()),
               node.args[3], background);
    RETURN_IF_ERROR(e.status());
    rewriter.Replace(i, {&chosen, 1});
  }
  rewriter.Finish();
  return Changed::Patterns(found);
}

}  // namespace kiln

#include "compiler/graph_passes/graph_pipeline.h"

#include "absl/strings/str_cat.h"
#include "compiler/graph_passes/decompose_composites.h"
#include "compiler/graph_passes/fold_constants.h"
#include "compiler/graph_passes/fold_into_convolutions.h"
#include "compiler/graph_passes/functionalize.h"
#include "compiler/graph_passes/merge_common_nodes.h"
#include "compiler/graph_passes/pad_products.h"
#include "compiler/graph_passes/remove_dead_nodes.h"
#include "compiler/graph_passes/rewrite_algebra.h"
#include "compiler/graph_passes/scatter_upon_const.h"
#include "compiler/graph_passes/separate_results.h"
#include "compiler/pass/graph_inspection.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Order is meaning: each row says why it stands where it stands.
constexpr Pass<Graph> kGraphPipeline[] = {
    // First: every rule below takes equal arguments for equal results.
    {"functionalize", Functionalize},
    // What nobody needs is not worth decomposing: detach chains, saved
    // statistics.
    {"remove_dead_nodes", RemoveDeadNodes},
    // Before all that looks at single operators: they know primitives only.
    {"decompose_composites", DecomposeComposites},
    // Before merging: equal constants must be equal nodes.
    {"fold_constants", FoldConstants},
    // After folding: its base is then an aten.full, however it was written.
    {"scatter_upon_const", ScatterUponConst},
    // Before merging, too: it brings different spellings to one.
    {"rewrite_algebra", RewriteAlgebra},
    // After rewriting: nothing that does nothing stands behind a convolution.
    {"fold_into_convolutions", FoldIntoConvolutions},
    // Before merging: what two products pad alike is padded once.
    {"pad_products", PadProducts},
    {"merge_common_nodes", MergeCommonNodes},
    // Last: the passes above leave orphans.
    {"remove_dead_nodes", RemoveDeadNodes},
};

}  // namespace

absl::Span<const Pass<Graph>> GraphPipeline() { return kGraphPipeline; }

absl::Status RunGraphPipeline(Graph& graph, const PassEnv& env,
                              std::vector<PassRecord>& records,
                              const PassRunOptions& options) {
  const ResultMemories due = MemoriesOfResults(graph);
  RETURN_IF_ERROR(RunPasses<Graph>(kGraphPipeline, graph, env, kGraphInspection,
                                   records, options));
  RETURN_IF_ERROR(
      Annotate(SeparateResults(graph, due).status(), "separate_results"));
  return VerifyLowerable(graph);
}

absl::Status VerifyLowerable(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const Handling handling = node.op->handling;
    if (handling == Handling::kView || handling == Handling::kLower ||
        handling == Handling::kStep) {
      continue;
    }
    return absl::InternalError(
        absl::StrCat("P1 at ", node.op->name, ": found an operator that ",
                     handling == Handling::kMutate ? "mutates" : "is composite",
                     ", expected a view, a loop or a library call"));
  }
  for (const Mutation& mutation : graph.mutations) {
    const Value& value = graph.value(mutation.value);
    if (value.node == Value::kNoNode && mutation.value != mutation.input) {
      return absl::InternalError(
          absl::StrCat("P2 at %", value.name,
                       ": an input's or constant's "
                       "memory is the new value of another input"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln

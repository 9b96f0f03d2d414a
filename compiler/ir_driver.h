#ifndef KILN_COMPILER_IR_DRIVER_H_
#define KILN_COMPILER_IR_DRIVER_H_

// IR text through named passes, for kiln-opt and the .ir tests. Not a part of
// the compile road: compiler.cc is.

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/schedule/kernel_plan.h"
#include "proto/artifact.pb.h"

namespace kiln {

// Kernel sources, as the last level: text only.
struct SourceText {
  std::string text;
};

using Ir =
    std::variant<Graph, LoopProgram, KernelPlan, wire::LaunchPlan, SourceText>;

// Reads a Graph, a LoopProgram, a KernelPlan or a LaunchPlan, by its first word,
// and verifies it; but for a LaunchPlan, whose modules and constants the text
// does not hold.
absl::StatusOr<Ir> ParseIr(absl::string_view text);
std::string PrintIr(const Ir& ir);

// Runs one word over `ir`, which it may take to the next level:
//
//   a pass of graph_pipeline.cc    Graph -> Graph
//   graph_pipeline                 all of them
//   lower_graph                    Graph -> LoopProgram
//   inline_producers, fuse_loops   LoopProgram -> LoopProgram
//   flatten_addresses              LoopProgram -> KernelPlan
//   order_loops, choose_variants,
//   plan_buffers                   KernelPlan -> KernelPlan
//   plan_nests                     LoopProgram -> KernelPlan: all up to where
//                                  kernels get their variants
//   plan_kernels                   LoopProgram -> KernelPlan: all of them
//   explain_tiling                 KernelPlan -> SourceText
//   explain_fusion,
//   explain_contraction            LoopProgram -> SourceText
//   write_kernels, write_units     KernelPlan -> SourceText
//   emit_plan                      Graph -> LaunchPlan, all the way
//
// Verifies after each graph pass, and that it says truly whether it changed
// anything. INVALID_ARGUMENT for a word that is not known or that the level has
// no use for.
absl::Status RunWord(absl::string_view word, Ir& ir, const PassEnv& env,
                     std::vector<PassRecord>& records,
                     const PassRunOptions& options = {});

// The passes over graphs, each once: what may be skipped.
std::vector<std::string> GraphPassNames();
// These and the words above, for help.
std::vector<std::string> KnownWords();

}  // namespace kiln

#endif  // KILN_COMPILER_IR_DRIVER_H_

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

namespace kiln {

// Kernel sources, as the last level: text only.
struct SourceText {
  std::string text;
};

using Ir = std::variant<Graph, LoopProgram, KernelPlan, SourceText>;

// Reads a Graph or a LoopProgram, by its first word, and verifies it.
absl::StatusOr<Ir> ParseIr(absl::string_view text);
std::string PrintIr(const Ir& ir);

// Runs one word over `ir`, which it may take to the next level:
//
//   a pass of graph_pipeline.cc    Graph -> Graph
//   graph_pipeline                 all of them
//   lower_graph                    Graph -> LoopProgram
//   inline_producers               LoopProgram -> LoopProgram
//   plan_kernels                   LoopProgram -> KernelPlan
//   write_kernels                  KernelPlan -> SourceText
//
// Verifies after each graph pass, and that it says truly whether it changed
// anything. INVALID_ARGUMENT for a word that is not known or that the level has
// no use for.
absl::Status RunWord(absl::string_view word, Ir& ir, const PassEnv& env,
                     std::vector<PassRecord>& records,
                     const PassRunOptions& options = {});

// The words above with each graph pass, for help.
std::vector<std::string> KnownWords();

}  // namespace kiln

#endif  // KILN_COMPILER_IR_DRIVER_H_

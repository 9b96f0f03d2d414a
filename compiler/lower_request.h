#ifndef KILN_COMPILER_LOWER_REQUEST_H_
#define KILN_COMPILER_LOWER_REQUEST_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/pass/pass_runner.h"
#include "proto/compile_service.pb.h"

namespace kiln {

// A request as loops. Compiling and measuring are the same up to here.
struct LoweredRequest {
  PassEnv env;  // without tuning decisions
  Graph graph;  // after its passes
  LoopProgram loops;
};

// Reads the request, runs the passes over its graph and lowers it.
//
// Errors: of graph_import.h (MALFORMED_GRAPH, UNSUPPORTED_OP, TOO_LARGE),
// BAD_TARGET, BAD_OPTION; INTERNAL is ours.
absl::StatusOr<LoweredRequest> LowerRequest(const wire::CompileRequest& request,
                                            std::vector<PassRecord>& records);

}  // namespace kiln

#endif  // KILN_COMPILER_LOWER_REQUEST_H_

#ifndef KILN_COMPILER_KILN_OPT_RUN_H_
#define KILN_COMPILER_KILN_OPT_RUN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "proto/corpus/corpus_case.h"

namespace kiln {

// Runs `graph` with the reference interpreter: on the inputs of `test_case`
// where it has some, else on random ones. A line an output: against what
// PyTorch computed ("ok", "WRONG ..."), or its meta and first elements.
//
// Errors: those of run_reference.h.
absl::StatusOr<std::string> RunForPeople(const Graph& graph,
                                         const CorpusCase& test_case,
                                         uint64_t seed);

// A case without data for a graph that came as text.
CorpusCase CaseOf(const Graph& graph);

}  // namespace kiln

#endif  // KILN_COMPILER_KILN_OPT_RUN_H_

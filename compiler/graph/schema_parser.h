#ifndef KILN_COMPILER_GRAPH_SCHEMA_PARSER_H_
#define KILN_COMPILER_GRAPH_SCHEMA_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/graph/op_def.h"

namespace kiln {

// Reads PyTorch's schema text, without the operator's name:
//
//   "(Tensor(a!) self, int[2] stride=1, *, ScalarType? dtype=None) -> Tensor(a!)"
//
// Names of results are dropped. An int default of a list with a size stands
// for that many. INTERNAL names what was not understood: the text is ours.
absl::StatusOr<Schema> ParseSchema(absl::string_view text);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_SCHEMA_PARSER_H_

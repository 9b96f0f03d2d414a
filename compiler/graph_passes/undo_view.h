#ifndef KILN_COMPILER_GRAPH_PASSES_UNDO_VIEW_H_
#define KILN_COMPILER_GRAPH_PASSES_UNDO_VIEW_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/graph_passes/emitter.h"

namespace kiln {

// `parent` with what its view shows replaced by `value`: for a slice a
// slice_scatter, for a transposition the transposition back.
//
//   view    the node that made the view; its other arguments are numbers
//   result  which of its results was written
//
// UNSUPPORTED_OP for a view in which one element stands at several places.
absl::StatusOr<ValueId> UndoView(const Node& view, uint32_t result,
                                 ValueId parent, ValueId value, Emitter& e);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_UNDO_VIEW_H_

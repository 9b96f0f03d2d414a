#ifndef KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_ORDERED_H_
#define KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_ORDERED_H_

#include "compiler/graph_passes/emitter.h"

namespace kiln {

// The elements of each row in order, and where they stood (i64).
struct Ordered {
  ValueId values, places;
};

// Of a tensor's rows along `dim`, on CUDA: ascending, equals keep their order.
Ordered InOrder(Emitter& e, ValueId x, int64_t dim);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_ORDERED_H_

#ifndef KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_
#define KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Puts each pointwise nest that alone reads a contraction's result, element by
// element in the result's order, behind the contraction's sum, where a library of
// `target` still computes the whole: what the library then does costs no memory
// traffic. A row that is added (of a convolution a number a channel, on the CPU)
// and an activation are such.
//
// Gives how many nests went. Linear in accesses, but for the search of what stands
// between a contraction and its nest: their product.
int64_t FuseEpilogues(LoopProgram& program, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

#ifndef KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_
#define KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Puts each pointwise nest that alone reads a contraction's result, element by
// element in the result's order, behind the contraction's sum, where a library of
// `target` still computes the whole: what the library then does costs no memory
// traffic. A row that is added (of a convolution a number a channel) and an
// activation are such. On CUDA the epilogue of a convolution goes as a whole or not at
// all (EpilogueOnCudnn in choose_contraction.h), an array that is added with it.
//
// Gives how many nests went. Linear in accesses, but for the search of what stands
// between a contraction and its nest: their product.
int64_t FuseEpilogues(LoopProgram& program, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

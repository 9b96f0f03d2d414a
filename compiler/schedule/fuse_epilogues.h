#ifndef KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_
#define KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Moves pointwise nests into the contractions whose results they read, as epilogues. The
// nest must be the only reader of the result and read it element by element in order,
// and a library of `target` must be able to compute the contraction with the epilogue.
// The library then does the nest's work without memory traffic. Examples: adding a row
// (for a convolution, a number a channel), and an activation. A convolution takes an array
// that is added too; on CUDA it takes its whole epilogue or none of it (EpilogueOnCudnn in
// choose_contraction.h).
//
// Returns the number of nests that were moved. Linear in accesses, except that the search
// for steps between a contraction and its nest takes the product of their numbers.
int64_t FuseEpilogues(LoopProgram& program, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

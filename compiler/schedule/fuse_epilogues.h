#ifndef KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_
#define KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

#include <cstdint>

#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Moves pointwise nests into the contractions whose results they read, as epilogues. The
// library then does the nest's work without memory traffic. Examples: adding a row (for
// a convolution, one number for each channel), and an activation.
//
// The nest must be the only reader of the result and read it element by element in
// order, and a library of `target` must be able to compute the contraction with the
// epilogue. A convolution also takes an array that is added; on CUDA it takes its whole
// epilogue or none of it (EpilogueOnCudnn in library_takes.h).
//
// Returns the number of contractions that took nests. Linear in accesses, except that
// for each contraction the steps between it and its nest are searched.
int64_t FuseEpilogues(LoopProgram& program, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSE_EPILOGUES_H_

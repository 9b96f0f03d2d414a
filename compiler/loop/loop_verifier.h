#ifndef KILN_COMPILER_LOOP_LOOP_VERIFIER_H_
#define KILN_COMPILER_LOOP_LOOP_VERIFIER_H_

#include "absl/status/status.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Invariants of a LoopProgram. Breaking one is our bug.
//
//   L1  Reduction axes stand behind all others.
//   L2  A node reads nodes before it only, also through its index.
//   L3  A load's and a store's index has one expression a dimension of the
//       buffer, over axes of the nest, symbols of the program and integer
//       nodes; the buffer is one of the program's.
//   L4  Types: a load and a store have the buffer's dtype; half types appear at
//       loads, casts and choices of them only; comparisons, masks and
//       conditions are bool; an index node is an i64 or an i32.
//   L5  Reductions stand in a nest with a reduction axis; kReduce, kScan and
//       kSort name how they combine; kReduceResult reads a kReduce; kTally is an
//       i32 of i32 values and says how many there are.
//   L6  Every nest stores something.
//   L7  What is stored at an index without reduction axes does not depend on
//       them either.
//   L8  A buffer that a nest stores (but for sums into it) it loads at the
//       index of its store alone.
//   L9  Views of orders and outputs name buffers of the program and have a
//       stride for each size.
//   L10 A temporary is written before it is read.
//   L11 A kSum store is of float32 or float64, has no mask, and stretches of at
//       least one point.
//   L12 A kAtomicMax store is of i32 or i64, a kAtomicMul store of a type of 32 or
//       64 bits.
//
// Contractions: contraction_verifier.h. Attention: attention_verifier.h.
//
// INTERNAL with the number, the step, what was found and what was due. Linear,
// but for L8: quadratic in the accesses of one nest.
absl::Status VerifyLoops(const LoopProgram& program);

// L1 to L8 of one nest.
absl::Status VerifyNest(const LoopNest& nest,
                        const std::vector<Buffer>& buffers,
                        const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_VERIFIER_H_

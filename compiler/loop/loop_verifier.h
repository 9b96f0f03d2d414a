#ifndef KILN_COMPILER_LOOP_LOOP_VERIFIER_H_
#define KILN_COMPILER_LOOP_LOOP_VERIFIER_H_

#include "absl/status/status.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Invariants of a LoopProgram. A program that breaks one is a bug of ours.
//
//   L1  Reduction axes come after all others.
//   L2  A node reads only nodes before it, including those in its index.
//   L3  The index of a load or a store has one expression for each dimension of
//       the buffer, over axes of the nest, symbols of the program and integer
//       nodes. The buffer is one of the program's.
//   L4  Types: a load and a store have the buffer's dtype; only loads, casts and
//       choices between such values have half types; comparisons, masks and
//       conditions are bool; an index node is an i64 or an i32.
//   L5  A nest with reductions has a reduction axis. kReduce, kScan and kSort have a
//       ReduceOp. kReduceResult reads a kReduce. kTally is an i32, reads an i32, and has
//       a number of possible values.
//   L6  Every nest stores something.
//   L7  A value that is stored at an index without reduction axes does not depend
//       on them either.
//   L8  If a nest stores to a buffer (except with kAtomicAdd and similar modes), it loads
//       the buffer only at the index of that store.
//   L9  Views of orders and outputs name buffers of the program and have a
//       stride for each size.
//   L10 A temporary is written before it is read.
//   L11 A kSum store is of float32 or float64, has no mask, and has stretches of at
//       least one point.
//   L12 A kAtomicMax store is of i32 or i64, a kAtomicMul store of a type of 32 or
//       64 bits.
//
// Contractions: contraction_verifier.h. Attention: attention_verifier.h.
//
// Errors: INTERNAL with the number, the step, what was found and what was expected.
// Linear, except that L8 is quadratic in the accesses of one nest.
absl::Status VerifyLoops(const LoopProgram& program);

// L1 to L8 of one nest.
absl::Status VerifyNest(const LoopNest& nest,
                        const std::vector<Buffer>& buffers,
                        const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_VERIFIER_H_

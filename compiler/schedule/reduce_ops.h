#ifndef KILN_COMPILER_SCHEDULE_REDUCE_OPS_H_
#define KILN_COMPILER_SCHEDULE_REDUCE_OPS_H_

// How many floats a sum adds before it continues with a double, how large the
// accumulators of reductions are, and where partial results are in the workspace.

#include <cstdint>

#include "compiler/loop/loop_nest.h"
#include "compiler/loop/scalar_expr.h"

namespace kiln {

// The most floats that a CUDA thread adds before it continues with a double. They lose a
// few units in a float's last place.
inline constexpr int64_t kMostFloatsAdded = 512;

// Whether a scan carries more digits on CUDA than its results have.
inline bool IsCarriedAsDouble(const ScalarNode& scan) {
  return scan.dtype == DType::kFloat32 &&
         (scan.reduce == ReduceOp::kSum || scan.reduce == ReduceOp::kProd);
}

// Bytes of a kReduce or a kScan node while it takes values in: at least those of
// its accumulator in the CUDA prelude.
inline int64_t AccumulatorBytes(const ScalarNode& reduce) {
  if (reduce.op == ScalarOp::kScan && IsCarriedAsDouble(reduce)) return 8;
  if (reduce.reduce == ReduceOp::kLogSumExp) return 16;
  if (reduce.reduce == ReduceOp::kMoments) return 32;
  return IsTupleReduction(reduce.reduce) ? 16 : SizeInBytes(reduce.dtype);
}

// Bytes of one partial result, in memory and while threads are joined.
inline int64_t JoinedBytes(const ScalarNode& reduce) {
  return reduce.reduce == ReduceOp::kMoments ? 12 : AccumulatorBytes(reduce);
}

// Where the partial results of reduction or scan `id` begin, in bytes, a multiple
// of 16: behind those of the ones before it in the body, each with one cell for
// every part and outer point. With the body's length as `id`: all bytes.
inline SymExpr PartialsBefore(const LoopNest& nest, ScalarId id,
                              const SymExpr& points, int parts) {
  SymExpr bytes = 0;
  for (ScalarId other = 0; other < id; ++other) {
    const ScalarNode& node = nest.body[other];
    if (node.op != ScalarOp::kReduce && node.op != ScalarOp::kScan) continue;
    bytes = bytes + CeilDiv(points * (parts * JoinedBytes(node)), 16) * 16;
  }
  return bytes;
}

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_REDUCE_OPS_H_

#ifndef KILN_COMPILER_SCHEDULE_REDUCE_OPS_H_
#define KILN_COMPILER_SCHEDULE_REDUCE_OPS_H_

// Facts about reductions that the cost model and the writers of kernels share: the sizes
// of accumulators, and where partial results lie in the workspace.

#include <cstdint>

#include "compiler/loop/loop_nest.h"
#include "compiler/loop/scalar_expr.h"

namespace kiln {

// Whether a scan on CUDA carries its running value as a double.
inline bool IsCarriedAsDouble(const ScalarNode& scan) {
  return scan.dtype == DType::kFloat32 &&
         (scan.reduce == ReduceOp::kSum || scan.reduce == ReduceOp::kProd);
}

// The bytes that a thread needs to accumulate a kReduce or kScan node: at least those of
// its accumulator in the CUDA prelude.
inline int64_t AccumulatorBytes(const ScalarNode& reduce) {
  if (reduce.op == ScalarOp::kScan && IsCarriedAsDouble(reduce)) return 8;
  if (reduce.reduce == ReduceOp::kLogSumExp) return 16;
  if (reduce.reduce == ReduceOp::kMoments) return 32;
  return IsTupleReduction(reduce.reduce) ? 16 : SizeInBytes(reduce.dtype);
}

// The bytes of one partial result, in memory and when results of threads are combined.
inline int64_t JoinedBytes(const ScalarNode& reduce) {
  return reduce.reduce == ReduceOp::kMoments ? 12 : AccumulatorBytes(reduce);
}

// The offset in bytes of the partial results of reduction or scan `id`, a multiple of 16.
// They follow those of earlier nodes of the body. Each node has one cell for each part and
// outer point. If `id` is the length of the body, the result is the total size.
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

#ifndef KILN_COMPILER_CODEGEN_CUDA_GRID_H_
#define KILN_COMPILER_CODEGEN_CUDA_GRID_H_

// The blocks of a CUDA kernel, and how a thread finds its points.

#include <cstdint>
#include <string>

#include "compiler/codegen/cuda_body.h"

namespace kiln {

// The blocks of a launch.
struct CudaGrid {
  SymExpr blocks = 1;
  // The kernel is a loop that any number of blocks can share: a device that
  // runs fewer at once is given at most this many a multiprocessor. 0: each
  // block has its own part, all must be launched.
  int blocks_per_multiprocessor = 0;
  // Dynamic shared memory of a block.
  int64_t shared_bytes = 0;
};

// The parts of "for (type name = first; name < end; name += step)".
struct LoopText {
  std::string type, first, end, step;
};
void OpenLoop(CudaBody& body, const std::string& name, const LoopText& loop);

// A loop that the blocks of a grid share: each takes `each` numbers below `limit`
// at a time. `first` is the thread's or the block's first number. The counter is
// unsigned: its last step may pass the greatest index, by no more than what a
// grid takes at once.
LoopText GridLoop(const CudaBody& body, const std::string& first,
                  const std::string& limit, int64_t each);

// Opens that loop. Where the grid covers all points, a block instead, entered once
// by those whose number is below `limit`.
//
//   threads  `first` is a thread's number: where the `each` of a block do not
//            divide `limit`, some have none. A block always has one.
void OpenGridLoop(CudaBody& body, const std::string& name,
                  const std::string& first, const SymExpr& limit, int64_t each,
                  bool threads);
void OpenTurns(CudaBody& body, const std::string& name, const LoopText& loop,
               bool some_idle);

// The number of points of the axes [first, last), those of the vector axis
// counted in groups.
SymExpr PointsOf(const CudaBody& body, uint32_t first, uint32_t last);

// Declares the axes [first, last) from a point's number as PointsOf counts, the
// last axis fastest. Of the vector axis: its first element in the group, and
// where groups may be partial `lo` and `hi`, between which its elements exist.
//
//   whole  a condition under which the group is known to be whole, evaluated
//          by the compiler; empty: unknown
void SplitPoint(CudaBody& body, const std::string& number, uint32_t first,
                uint32_t last, const std::string& whole = "");

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_GRID_H_

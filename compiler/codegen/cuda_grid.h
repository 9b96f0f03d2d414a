#ifndef KILN_COMPILER_CODEGEN_CUDA_GRID_H_
#define KILN_COMPILER_CODEGEN_CUDA_GRID_H_

// The grid of a CUDA kernel, and the code by which a thread finds its points.

#include <cstdint>
#include <string>

#include "compiler/codegen/cuda_body.h"

namespace kiln {

// The blocks of a launch.
struct CudaGrid {
  SymExpr blocks = 1;
  // If not 0, the kernel is a loop that any number of blocks can share, and at most this
  // many are launched for each multiprocessor. If 0, each block has its own part, and all
  // must be launched.
  int blocks_per_multiprocessor = 0;
  // Dynamic shared memory of a block.
  int64_t shared_bytes = 0;
};

// The parts of "for (type name = first; name < end; name += step)".
struct LoopText {
  std::string type, first, end, step;
};
void OpenLoop(CudaBody& body, const std::string& name, const LoopText& loop);

// A loop that the blocks of a grid share. Each block takes `each` numbers below `limit`
// at a time. `first` is the first number of the thread or block. The counter is
// unsigned, because its last step may go past the largest index, by at most the numbers
// that a grid takes at once.
LoopText GridLoop(const CudaBody& body, const std::string& first,
                  const std::string& limit, int64_t each);

// Opens that loop. If the grid covers all points, opens a plain block instead, for
// threads whose number is below `limit`.
//
//   threads  `first` is the number of a thread, not of a block. Then some threads have
//            no number, unless `each` divides `limit`.
void OpenGridLoop(CudaBody& body, const std::string& name,
                  const std::string& first, const SymExpr& limit, int64_t each,
                  bool threads);
void OpenTurns(CudaBody& body, const std::string& name, const LoopText& loop,
               bool some_idle);

// The number of points of the axes [first, last). The vector axis is counted in
// groups.
SymExpr PointsOf(const CudaBody& body, uint32_t first, uint32_t last);

// Declares the axes [first, last) of the point with this number. Points are counted as in
// PointsOf, the last axis fastest. The vector axis gets the group's first element. If
// groups may be partial, also declares `lo` and `hi`: only the elements from `lo` up to,
// not including, `hi` exist.
//
//   whole  a condition, which the compiler can evaluate, that the group is whole; empty:
//          none is known
void SplitPoint(CudaBody& body, const std::string& number, uint32_t first,
                uint32_t last, const std::string& whole = "");

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_GRID_H_

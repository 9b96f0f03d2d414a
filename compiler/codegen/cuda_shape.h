#ifndef KILN_COMPILER_CODEGEN_CUDA_SHAPE_H_
#define KILN_COMPILER_CODEGEN_CUDA_SHAPE_H_

// How the iteration of a CUDA kernel is shared out: which threads take what,
// and how many blocks there are.

#include <cstdint>
#include <string>

#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

struct CudaShape {
  Mapping mapping = Mapping::kPointwise;
  int threads = 256;  // of a block
  int per_row = 256;  // threads of a row, or side by side on columns
  int rows = 1;       // of a block
  // Whether values of a row stay in registers between its passes, and then how
  // many groups of neighbours a thread has.
  bool keep = false;
  int64_t groups = 0;
  SymExpr outer_points = 1;
  SymExpr reduced_points = 1;
};

// What the tiling wants, as far as the nest allows it. Sets vector_axis, width
// and cut of `body`.
CudaShape ChooseCudaShape(const KernelTiling& tiling, CudaBody& body);

// The blocks of a launch.
struct CudaGrid {
  SymExpr blocks = 1;
  // The kernel is a loop that any number of blocks can share: a device that
  // runs fewer at once is given at most this many a multiprocessor. 0: each
  // block has its own part, all must be launched.
  uint32_t blocks_per_multiprocessor = 0;
};

// A grid for `blocks` blocks of a loop. Four times the threads that a
// multiprocessor holds: one such round keeps it busy, the others even out
// blocks that end early; more would only start blocks for less work each.
CudaGrid LoopGrid(const SymExpr& blocks, int threads);

// "(blockIdx.x * threads + threadIdx.x) * width", unsigned; of a part its own
// block.
std::string GlobalThread(const CudaBody& body, int threads, int width);

// Opens "for (T name = first; name < limit; name += each * gridDim.x)". `first`
// is of the thread or of the block. The counter is unsigned: its last step may
// pass the greatest index, by no more than what a grid takes at once. A part
// goes through it at most once: an `if`.
void OpenGridLoop(CudaBody& body, const std::string& name,
                  const std::string& first, const std::string& limit,
                  int64_t each);

// Declares the axes [first, last) from a point's number, the last axis fastest.
void SplitPoint(CudaBody& body, const std::string& number, uint32_t first,
                uint32_t last);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SHAPE_H_

#ifndef KILN_COMPILER_SCHEDULE_MATRIX_PRODUCT_H_
#define KILN_COMPILER_SCHEDULE_MATRIX_PRODUCT_H_

// Nests that are products of matrices of half types, with what is done to each
// sum: those that tensor cores compute (CudaProducts).

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// Rows and columns of the fragments that a warp multiplies at once, and the points
// of the sum that one instruction takes.
inline constexpr int kTileRows = 16;
inline constexpr int kStripColumns = 32;
inline constexpr int kDepthStep = 16;
// Neighbouring columns that a thread has of each row and strip.
inline constexpr int kThreadColumns = 8;
// Elements of an access along the sum.
inline constexpr int kAlongDepth = 4;

// The compute capability from which they multiply bfloat16 (mma.m16n8k16).
inline constexpr int kHalfProducts = 80;

// The longest sum. Longer ones read their factors too often for kernels that keep
// nothing of them in shared memory: of 4096 x 4096 x 64 cuBLASLt's takes half as long.
inline constexpr int64_t kMostDepth = 32;

struct MatrixProduct {
  struct Factor {
    ScalarId load = 0;
    uint32_t axis = 0;  // the outer axis along which it alone moves
    // Its address is first + stride * axis + depth_stride * the reduced axis.
    SymExpr first = 0, stride = 0, depth_stride = 0;
    bool along_depth = false;  // depth_stride is 1; otherwise stride is
    // Elements that one access may move: 1, 2, 4 or 8. Groups of as many are whole.
    int widest = 1;

    // Elements of an access for a thread's fragments, which have `across` elements along
    // the factor's own axis, and whether all of its accesses move as many at once.
    int WidthFor(int across) const {
      return along_depth ? kAlongDepth : across;
    }
    bool MovesWide(int across) const { return widest >= WidthFor(across); }
  };
  ScalarId sum = 0;
  Factor rows;
  Factor columns;  // its axis is the last outer one
  int64_t depth = 0;
};

// None for other nests. The sum is in f32, and the nest's only reduction, along one
// axis of at most kMostDepth points. Its terms are products of two loads of one half
// type without masks, whose addresses are linear. Stores set elements, one for each
// sum.
std::optional<MatrixProduct> MatrixProductOf(
    const LoopNest& nest, const NestFacts& facts,
    const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_MATRIX_PRODUCT_H_

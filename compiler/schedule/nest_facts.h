#ifndef KILN_COMPILER_SCHEDULE_NEST_FACTS_H_
#define KILN_COMPILER_SCHEDULE_NEST_FACTS_H_

// Facts about a nest that the cost model and the writers of kernels share: on which axes
// and reductions each value depends, where accesses lie in memory, and which parameters
// the kernel has. Decides nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// One parameter of a kernel, in signature order.
struct KernelParam {
  // The run's random seed. A CPU kernel takes its value (kSeed), a CUDA kernel its address
  // (kSeedSlot).
  enum class Kind : uint8_t { kBuffer, kScalar, kSeed, kSeedSlot };
  Kind kind;
  BufferId buffer = 0;  // kBuffer: of the plan
  SymExpr scalar = 0;   // kScalar: over symbols only
};

// A set of axes of a nest, one bit for each. A nest has at most 64 axes.
using AxisSet = uint64_t;
constexpr AxisSet AxisBit(uint32_t axis) { return AxisSet{1} << axis; }

// How an offset changes along one axis.
enum class Motion : uint8_t {
  kStill,       // not at all
  kContiguous,  // by one element per step
  kStrided,     // by the same number of elements per step
  kIrregular,   // in another way: it has a division or a loaded index
};

struct NestFacts {
  uint32_t num_outer = 0;  // axes 0 .. num_outer-1 are not reduced
  uint32_t num_axes = 0;
  AxisSet reduced = 0;

  // For each node:
  std::vector<AxisSet> axes;    // the axes that its value depends on
  std::vector<uint16_t> stage;  // the most reductions on a path to its operands
  // The offset of a kLoad in elements from the buffer's base pointer, over axes, symbols
  // and indirect nodes. 0 for other nodes.
  std::vector<SymExpr> load_offset;

  // Whether the value reaches memory only after rounding to a half type, which hides an
  // error of a few units in the last place of a float32. Never true if the nest rounds
  // intermediate results as eager mode does.
  std::vector<bool> approximate;

  // For each store:
  std::vector<AxisSet> store_axes;  // the axes of its value, index and mask
  std::vector<uint16_t> store_stage;
  std::vector<SymExpr> store_offset;

  std::vector<SymExpr> extents;  // of the axes

  // Buffers in order of first use, then symbols, then the seed.
  std::vector<KernelParam> params;
  std::vector<int> buffer_param;  // BufferId -> number among buffers, or -1
  std::vector<uint32_t> symbols;  // graph symbols, in parameter order
  bool uses_seed = false;
  bool has_scan = false;
  bool has_atomic = false;

  // Whether all offsets and products of extents fit a signed 32-bit integer.
  bool index32 = false;

  bool IsReduced(ScalarId node) const { return (axes[node] & reduced) != 0; }
  bool StoreIsReduced(size_t store) const {
    return (store_axes[store] & reduced) != 0;
  }
};

// Collects the facts of a nest. Pure.
//
// Errors: INTERNAL for a nest that breaks an invariant: more than 64 axes, an index of
// the wrong length, a node that reads a later one.
absl::StatusOr<NestFacts> FactsOf(const LoopNest& nest,
                                  const std::vector<Buffer>& buffers,
                                  const ShapeEnv& shapes);

// How `offset` changes along `axis`. If it reads a node, that node's axes count.
Motion MotionOf(const SymExpr& offset, uint32_t axis, const NestFacts& facts);

// Whether each term of `offset`, except a multiple of `axis`, is a multiple of `elements`
// for all values of its variables.
bool RestIsMultiple(const SymExpr& offset, uint32_t axis, int64_t elements);

// Whether `extent` is a multiple of `elements` for all values of the symbols.
bool IsMultiple(const SymExpr& extent, int64_t elements);

// Whether a - b is a multiple of `elements` for all values of the variables.
bool DiffersByMultiple(const SymExpr& a, const SymExpr& b, int64_t elements);

// The groups of neighbours that a thread loads and stores at once: `width` elements along
// `axis`.
struct Vectors {
  static constexpr uint32_t kNoAxis = ~0u;
  uint32_t axis = kNoAxis;
  int width = 1;
  // Groups begin where axis + `rest` is a multiple of `width`. So accesses are aligned if
  // their other terms differ from `rest` by a multiple of `width`.
  SymExpr rest = 0;
  // Whether groups may be partial: `width` does not divide the axis' extent or `rest`.
  bool cut = false;
};

// Vectors of `width` elements along `axis`. With `peel`, `rest` suits the accesses that
// move the most bytes; otherwise it is 0.
Vectors MakeVectors(const LoopNest& nest, const NestFacts& facts,
                    const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                    uint32_t axis, int width, bool peel);

// Whether a whole group at `offset` of `buffer` may be accessed in units of up to
// kMaxAccessBytes.
bool IsWideAccess(const Buffer& buffer, const SymExpr& offset,
                  const Vectors& vectors, const NestFacts& facts);

// The type of the elements that a kSort orders: halves stay halves if the sort takes them
// converted to float32.
DType SortKeyType(const LoopNest& nest, const ScalarNode& sort);

// The number of groups along their axis.
SymExpr GroupsAlong(const Vectors& vectors, const NestFacts& facts);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_NEST_FACTS_H_

#ifndef KILN_COMPILER_SCHEDULE_NEST_FACTS_H_
#define KILN_COMPILER_SCHEDULE_NEST_FACTS_H_

// Facts about a nest that the cost model and the writers of kernels share: which
// value depends on which loop, how many reductions lie beneath it, where
// accesses lie in memory, what the kernel's parameters are. Decides nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// One parameter of a kernel, in signature order.
struct KernelParam {
  // The run's random seed: a CPU kernel takes it, a CUDA kernel its address.
  enum class Kind : uint8_t { kBuffer, kScalar, kSeed, kSeedSlot };
  Kind kind;
  BufferId buffer = 0;  // kBuffer: of the plan
  SymExpr scalar = 0;   // kScalar: over symbols only
};

// A set of axes of a nest, a bit each. A nest has at most 64.
using AxisSet = uint64_t;
constexpr AxisSet AxisBit(uint32_t axis) { return AxisSet{1} << axis; }

// How an offset moves with one axis.
enum class Motion : uint8_t {
  kStill,       // not at all
  kContiguous,  // by one element
  kStrided,     // by the same number of elements each step
  kIrregular,   // through a division, or an index that was loaded
};

struct NestFacts {
  uint32_t num_outer = 0;  // axes that are not reduced: 0 .. num_outer-1
  uint32_t num_axes = 0;
  AxisSet reduced = 0;

  // One a node.
  std::vector<AxisSet> axes;    // that its value depends on
  std::vector<uint16_t> stage;  // reductions on the longest way down
  // kLoad: elements from the buffer's base pointer, over axes, symbols and
  // indirect nodes. Else 0.
  std::vector<SymExpr> load_offset;

  // Whether the value reaches memory only through a rounding to a half type, so
  // that a few units of a float32's last place are hidden. Never true where the
  // nest rounds in between as eager mode does.
  std::vector<bool> approximate;

  // One a store.
  std::vector<AxisSet> store_axes;  // of value, index and mask
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

  // Every offset and every extent's product fits a signed 32-bit integer.
  bool index32 = false;

  bool IsReduced(ScalarId node) const { return (axes[node] & reduced) != 0; }
  bool StoreIsReduced(size_t store) const {
    return (store_axes[store] & reduced) != 0;
  }
};

// Errors: INTERNAL for a nest that breaks loop_nest.h's rules: more than 64
// axes, an index of the wrong length, a node that reads a later one.
absl::StatusOr<NestFacts> FactsOf(const LoopNest& nest,
                                  const std::vector<Buffer>& buffers,
                                  const ShapeEnv& shapes);

// How `offset` moves with `axis`. A node that an index reads counts through
// the axes it depends on.
Motion MotionOf(const SymExpr& offset, uint32_t axis, const NestFacts& facts);

// Whether every term of `offset` that does not hold `axis` is a multiple of
// `elements`, for all values of its variables.
bool RestIsMultiple(const SymExpr& offset, uint32_t axis, int64_t elements);

// Whether `extent` is a multiple of `elements` whatever the symbols are.
bool IsMultiple(const SymExpr& extent, int64_t elements);

// Whether a - b is a multiple of `elements` for all values of the variables.
bool DiffersByMultiple(const SymExpr& a, const SymExpr& b, int64_t elements);

// The groups of neighbours that a kernel moves at once: `width` elements on
// `axis`.
struct Vectors {
  static constexpr uint32_t kNoAxis = ~0u;
  uint32_t axis = kNoAxis;
  int width = 1;
  // Groups begin where axis + `rest` is a multiple of `width`, so that accesses
  // whose other terms differ from `rest` by a multiple of it are aligned.
  SymExpr rest = 0;
  // Whether groups may be partial: the axis' extent is no multiple of `width`,
  // or `rest` is none.
  bool cut = false;
};

// The vectors of `width` elements on `axis` for `nest`. With `peel` the rest is
// that of the accesses that move most bytes; without, 0.
Vectors MakeVectors(const LoopNest& nest, const NestFacts& facts,
                    const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
                    uint32_t axis, int width, bool peel);

// Whether a whole group at `offset` of `buffer` may be moved in accesses of up to
// 16 bytes.
//
// Source: 16 bytes is the widest single access to global memory up to sm_90
// (CUDA C++ Programming Guide, "Device Memory Accesses").
bool IsWideAccess(const Buffer& buffer, const SymExpr& offset,
                  const Vectors& vectors, const NestFacts& facts);

// Groups of `vectors` along their axis.
SymExpr GroupsAlong(const Vectors& vectors, const NestFacts& facts);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_NEST_FACTS_H_

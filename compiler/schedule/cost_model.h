#ifndef KILN_COMPILER_SCHEDULE_COST_MODEL_H_
#define KILN_COMPILER_SCHEDULE_COST_MODEL_H_

// What a kernel is expected to take, under each way of mapping it. All choices
// of the schedule are made by this price: variants (choose_variant.h) and
// fusions (fuse_loops.h).

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/matrix_product.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

struct TileWalks;

// The time of a read that L2 serves, relative to a read from memory. Measured on the
// H200.
inline constexpr double kL2TimeFactor = 0.55;

// The number of warps that overlap as much as one out-of-order CPU core does.
inline constexpr int kCpuOverlap = 40;

// Nanoseconds on the target, without the launch. For comparing kernels of one target;
// real times may differ.
struct Price {
  double ns = 0;
  // The parts that decide it: the largest counts most.
  double memory_ns = 0;  // bytes moved, at the memory's bandwidth
  double issue_ns = 0;   // instructions, at the chip's rate
  double latency_ns =
      0;              // rounds of blocks, each as long as its dependent steps
  double bytes = 0;   // moved, counted in whole sectors
  int registers = 0;  // a thread, estimated (CUDA)
  // The grid has no second block for a multiprocessor (CUDA).
  bool one_each = false;
  bool fits = true;  // whether registers and shared memory suffice
};
// "12.3 us (memory 12.1, issue 3.2, latency 5.0; 48 MB, 40 registers)".
std::string ToText(const Price& price);

// Facts that pricing needs repeatedly, computed once. Symbols have the values of their
// hints. Not thread-safe.
class NestCosts {
 public:
  // `nest`'s addresses are flat and its axes in their final order. All arguments
  // must outlive this.
  NestCosts(const LoopNest& nest, const NestFacts& facts,
            const std::vector<Buffer>& buffers, const ShapeEnv& shapes,
            const Target& target);

  Price PriceOf(const KernelVariant& variant) const;
  // CudaPoints.blocks of the variant, whose other numbers are final; 0 if it has
  // no such number.
  int BlocksOf(const KernelVariant& variant) const;

  const LoopNest& nest() const { return nest_; }
  const NestFacts& facts() const { return facts_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const ShapeEnv& shapes() const { return shapes_; }
  const Target& target() const { return target_; }
  const KernelPasses& passes() const { return passes_; }

  // Points, at least 1.
  int64_t outer() const { return outer_; }
  int64_t reduced() const { return reduced_; }
  int64_t extent(uint32_t axis) const { return extents_[axis]; }
  // Whether an access is contiguous along the axis, and the widest vector on it
  // for which the narrowest of them takes 16 bytes; 1 if no access is.
  int WidestVector(uint32_t axis) const;
  // Whether all accesses that are contiguous along the axis may be moved in
  // vectors of `width`, without peeling.
  bool AllWide(uint32_t axis, int width) const;
  // The same of the loads alone.
  bool LoadsWide(uint32_t axis, int width) const;
  // Whether the reduction may be shared by several blocks: it has one pass.
  bool MaySplit() const;
  // Whether many threads may share a scan: along one axis, none of another's
  // result, without other reductions.
  bool MayScan() const;
  // The nest's kSort or kTally, where it is the nest's only reduction and there is
  // one reduced axis; else null.
  const ScalarNode* OnlyReduction(ScalarOp op) const;
  // Of the nest, if it is a product of matrices that tensor cores compute.
  const std::optional<MatrixProduct>& product() const { return product_; }
  bool HasCostlyToHold() const { return has_costly_; }
  // Whether some value is loaded at reduced points for a single pass.
  bool LoadsForOnePass() const;

 private:
  struct Access {
    BufferId buffer = 0;
    int64_t bytes = 0;  // of an element
    AxisSet axes = 0;   // that it moves with
    const SymExpr* offset = nullptr;
    // One an axis: how the offset moves, and by how many elements where that is a
    // constant; else 0.
    absl::InlinedVector<Motion, 4> motion;
    absl::InlinedVector<int64_t, 4> stride;
    bool store = false;
    bool atomic = false;
    bool plain = true;      // no mask, no loaded index
    bool gathered = false;  // through a loaded index
    bool reduced = false;   // at each reduced point
    int passes = 1;         // that read it, when nothing is held
    int held_passes = 1;    // when what may be held is
    double points = 1;      // distinct ones
  };

  static Motion MotionAlong(const Access& access, uint32_t axis) {
    return axis == Vectors::kNoAxis ? Motion::kStill : access.motion[axis];
  }
  void AddAccess(BufferId buffer, const SymExpr& offset, AxisSet axes,
                 bool plain, bool reduced, bool store, ScalarId id);
  void CountWork();
  double Instructions(ScalarId id) const;
  // Bytes that an access moves if neighbouring threads take neighbouring elements of
  // `axis`.
  double BytesAlong(const Access& access, uint32_t axis, int run) const;
  // The same for all accesses together, with no buffer counted beyond its size:
  // windows that overlap are read from caches.
  double BytesOnce(uint32_t axis, int run) const;
  // Sectors that all warps request if each point is accessed once.
  double Sectors(const Access& access, const Vectors& vectors) const;
  // Vectors with cached results, which several candidates need.
  struct PricedVectors : Vectors {
    bool peel = false;
    // Instructions: all, with held values, and with held costly ones too; below
    // 0: not counted yet.
    mutable double issue[3] = {-1, -1, -1};
    // Of each access; empty: not counted yet.
    mutable std::vector<double> sectors;
    // See PackWords: all, and those held; below 0: not counted yet.
    mutable int words[2] = {-1, -1};
  };
  // Sectors of each access.
  const std::vector<double>& SectorsOf(const PricedVectors& vectors) const;
  double Issue(const PricedVectors& vectors, bool held, bool costly_held) const;
  double CountIssue(const Vectors& vectors, bool held, bool costly_held) const;
  // 32-bit registers that hold one group of each load, or of each that may be held.
  int PackWords(const PricedVectors& vectors, bool only_held) const;
  // Lives as long as this.
  const PricedVectors& VectorsFor(uint32_t axis, int width, bool peel) const;
  int Resident(int threads, int registers) const;
  // Blocks that a multiprocessor works on at once, if the grid has `blocks` and there
  // is room for `most`.
  int ResidentOf(double blocks, int most) const;
  // Combines the parts of a price. The smaller parts overlap the largest, except for a
  // share that is at least `lockstep`, at most `most_apart`, and larger the fewer
  // `warps` a multiprocessor has.
  Price Finish(Price price, int warps, double lockstep = 0,
               double most_apart = 1) const;

  // Bytes that a row kernel moves for the first time and again, sectors of warps,
  // and whether some are gathered.
  struct RowTraffic {
    double once = 0;
    double again = 0;
    double sectors = 0;
    bool gathers = false;
  };
  RowTraffic TrafficOf(const CudaRows& v, const PricedVectors& vectors) const;
  bool HoldsHalves() const;
  int64_t WidestBytes() const;
  int RowRegisters(const CudaRows& v, const PricedVectors& vectors) const;
  // Blocks that a multiprocessor holds; fills in registers and whether it fits.
  int ResidentRows(const CudaRows& v, const PricedVectors& vectors,
                   Price& price) const;
  // Lane instructions, of which a block's threads take `groups` a row.
  bool StoresRows() const;  // at reduced points
  double RowIssue(const CudaRows& v, const PricedVectors& vectors,
                  double groups) const;
  Price FinishStretch(Price price, const CudaRows& v, int resident) const;
  Price FinishRows(Price price, const CudaRows& v, int resident) const;
  double StagedBytes(const CudaRows& v, const PricedVectors& vectors) const;
  double RowBlockNs(const CudaRows& v, const PricedVectors& vectors,
                    double steps, bool gathers) const;
  double Unevenness(double blocks, double slots) const;

  // Of a tile kernel: bytes and sectors that it moves, elements that are put into shared
  // memory and taken from it, registers for loads.
  struct TileTraffic {
    double bytes = 0;
    double sectors = 0;
    double cells = 0;
    int registers = 0;
  };
  TileTraffic TrafficOf(const CudaTiles& v, const TileWalks& walks) const;
  double BlocksOfTiles(const TileWalks& walks) const;

  Price PriceCuda(const CudaPoints& v) const;
  Price PriceCuda(const CudaTiles& v) const;
  Price PriceCuda(const CudaRows& v) const;
  // Blocks of columns, without parts; with `peel` what they do more.
  struct ColumnBlocks {
    double count = 1;
    double beside = 1;          // threads side by side, for each group
    bool rows_are_cut = false;  // a row has several blocks
    double both_ways = 1;       // instructions of stores that may be partial
  };
  ColumnBlocks ColumnBlocksOf(const CudaColumns& v) const;
  // Columns of which each thread goes through all reduced points.
  Price PriceAlone(const CudaColumns& v) const;
  double ColumnBlockNs(const CudaColumns& v,
                       const PricedVectors& vectors) const;
  Price PriceCuda(const CudaColumns& v) const;
  Price PriceCuda(const CudaScans& v) const;
  Price PriceCuda(const CudaShortScans& v) const;
  Price PriceCuda(const CudaColumnScans& v) const;
  Price PriceCuda(const CudaSorts& v) const;
  Price PriceCuda(const CudaSelections& v) const;
  Price PriceCuda(const CudaTallies& v) const;
  Price PriceCuda(const CudaCounts& v) const;
  Price PriceCuda(const CudaProducts& v) const;
  Price PriceCuda(const CudaSerial& v) const;
  // `across`: the other axis of a tile, or Vectors::kNoAxis.
  Price PriceCpu(uint32_t vector_axis, uint32_t across,
                 double overhead_ns) const;

  const LoopNest& nest_;
  const NestFacts& facts_;
  const std::vector<Buffer>& buffers_;
  const ShapeEnv& shapes_;
  const Target& target_;
  const KernelPasses passes_;
  const std::optional<MatrixProduct> product_;
  std::vector<int64_t> extents_;
  int64_t outer_ = 1;
  int64_t reduced_ = 1;
  std::vector<Access> accesses_;
  // Instructions but loads and stores: at each point of the inner loops (all
  // passes), those of costly values that could be held, and once an outer point.
  double work_ = 0;
  double costly_again_ = 0;
  double special_ = 0;  // of work_, for the special function unit
  double special_again_ = 0;
  double outer_work_ = 0;
  int reductions_ = 0;
  int moments_ = 0;      // of the reductions
  int softmaxes_ = 0;    // of the reductions
  int column_sums_ = 0;  // kSum stores
  int reducing_passes_ = 0;
  bool has_costly_ = false;
  mutable std::deque<PricedVectors> vectors_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COST_MODEL_H_

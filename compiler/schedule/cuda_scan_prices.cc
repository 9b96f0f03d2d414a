// Prices of CUDA's scans: cost_model.h.

#include <algorithm>
#include <cmath>

#include "compiler/schedule/candidate_sizes.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"
#include "compiler/schedule/reduce_ops.h"

namespace kiln {

namespace {

// Instructions for a point of a short scan: its axes are computed twice, it goes through
// shared memory, and its sum is a double.
constexpr double kShortScanPoint = 25;
// Time for groups of a scan that are loaded together: they wait for their loads and for
// the sums of the groups before them. Fitted, with kScanElementNs, kScanWarpNs and
// kScanBlockNs, to 93 configurations on an H100 (bench/records/gpu_kernels.md). Then the
// same for blocks that share a row, which load from L2.
constexpr double kScanLoadNs = 1420;
constexpr double kScanAgainNs = 550;
// Time for an element of each further group, and for each warp of a row in the join of a
// group.
constexpr double kScanElementNs = 10;
constexpr double kScanWarpNs = 13;
// Time to start a block, and to join the parts of a row before a block's own.
constexpr double kScanBlockNs = 400;
constexpr double kScanPartsNs = 5500;
constexpr double kScanPartNs = 25;  // for each of them
// Instructions for a group and for each of its elements: a tree of shuffled doubles.
constexpr double kScanGroup = 37;
constexpr double kScanElement = 2.7;
// The weight of the places that stay empty in the last round of blocks.
constexpr double kScanLastRound = 0.8;
// Time for the loads of a short scan, to shared memory and back.
constexpr double kShortScanLoadNs = 640;
// The slowdown of a scan whose groups may be partial.
constexpr double kPartialScan = 1.5;
// Shared memory that a kernel may have without an attribute that allows more.
constexpr int64_t kStaticShared = 48 << 10;

// The cost of a second read of `bytes`, relative to the first, if each of `blocks` reads
// its part twice. L2 serves it as long as it holds the parts of all running blocks.
double SecondRead(double bytes, double blocks, double slots) {
  const double live = bytes * std::min(1.0, slots / blocks);
  return live < kL2Bytes ? kL2TimeFactor : 1;
}

}  // namespace

Price NestCosts::PriceCuda(const CudaScans& v) const {
  const uint32_t axis = facts_.num_axes - 1;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, v.peel != 0);
  const int threads = v.lanes * v.rows;
  // A part is read for its total, and again, from L2, for its values.
  const bool shared = v.parts > 1;
  Price price;
  double sectors = 0, again = 0;
  for (const Access& access : accesses_) {
    const double bytes = BytesAlong(access, axis, v.lanes * v.vector);
    const bool twice = shared && !access.store && access.reduced;
    price.bytes += bytes;
    again += twice ? bytes : 0;
    sectors += Sectors(access, vectors) * (twice ? 2 : 1);
  }
  price.registers = kBaseRegisters + 2 * v.vector * v.unroll;
  const int resident = Resident(threads, price.registers);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  const double blocks = CeilDivide(double(outer_), v.rows) * v.parts;
  const double slots = double(target_.multiprocessors) * resident;
  price.memory_ns =
      std::max((price.bytes + again * SecondRead(again, blocks, slots)) /
                   target_.memory_bytes_per_ns,
               sectors / (kSectorsPerCycle * chip));
  const double groups =
      double(reduced_) / v.vector + (vectors.rest.Is(0) ? 0 : 1);
  const double tiles =
      CeilDivide(CeilDivide(groups, v.parts), double(v.lanes) * v.unroll);
  const double partial = vectors.cut && vectors.width > 1 ? kPartialScan : 1;
  price.issue_ns =
      (Issue(vectors, false, false) * (shared ? 1.5 : 1) * partial / 2 +
       double(outer_) * v.parts * tiles * v.unroll * v.lanes *
           (kScanElement * v.vector * (shared ? 1.4 : 1) + kScanGroup)) /
      (chip * kLanesPerCycle);
  const double warps = std::max(1, v.lanes / kWarp);
  double block_ns = tiles * (kScanLoadNs * partial +
                             kScanElementNs * v.vector * (v.unroll - 1) +
                             kScanWarpNs * warps * v.unroll) +
                    kScanBlockNs;
  if (shared) {
    block_ns += tiles * kScanAgainNs + kScanPartsNs + kScanPartNs * v.parts +
                CeilDivide(double(v.parts), v.lanes) * kLoadNs;
  }
  const double rounds = std::max(1.0, blocks / slots);
  const double rest = rounds < 4 ? std::ceil(rounds) - rounds : 0;
  price.latency_ns = (rounds + kScanLastRound * rest) * block_ns;
  return Finish(price, resident * threads / 32,
                v.lanes > kWarp ? 0.47 / (resident * v.rows) : 0);
}

Price NestCosts::PriceCuda(const CudaShortScans& v) const {
  const uint32_t axis = facts_.num_axes - 1;
  const PricedVectors& vectors = VectorsFor(axis, 1, false);
  const int threads = v.lanes * v.rows;
  Price price;
  double sectors = 0;
  for (const Access& access : accesses_) {
    price.bytes += BytesAlong(access, axis, threads);
    sectors += Sectors(access, vectors);
  }
  int64_t cell = 0;
  for (const ScalarNode& node : nest_.body)
    if (node.op == ScalarOp::kScan) cell += SizeInBytes(node.dtype);
  const int64_t shared = cell * v.rows * v.lanes * v.run;
  price.registers =
      kBaseRegisters + 16 + v.run + v.unroll * PackWords(vectors, false);
  price.fits = shared + kSharedOfBlock <= kStaticShared;
  const int resident = static_cast<int>(std::clamp<int64_t>(
      target_.shared_bytes_per_multiprocessor / (shared + kSharedOfBlock), 1,
      Resident(threads, price.registers)));
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  const double points = double(outer_) * double(reduced_);
  price.issue_ns = (Issue(vectors, false, false) + points * kShortScanPoint +
                    double(outer_) * v.lanes * 60.0) /
                   (chip * kLanesPerCycle);
  const double rounds = CeilDivide(double(outer_), v.rows) /
                        (double(target_.multiprocessors) * resident);
  const double steps =
      CeilDivide(double(v.rows) * double(reduced_), double(threads) * v.unroll);
  price.latency_ns = std::max(1.0, rounds) * (steps * kShortScanLoadNs +
                                              3 * kJoinBlockNs + v.run * 10.0);
  return Finish(price, resident * threads / 32, 0.75 / resident);
}

Price NestCosts::PriceCuda(const CudaColumnScans& v) const {
  const uint32_t axis = facts_.num_outer - 1;
  const PricedVectors& vectors = VectorsFor(axis, 1, false);
  const int threads = v.across * v.down;
  // Every stretch is read twice, the second time from L2.
  Price price;
  double sectors = 0, again = 0;
  for (const Access& access : accesses_) {
    const double bytes = BytesAlong(access, axis, v.across);
    const bool twice = !access.store && access.reduced;
    price.bytes += bytes;
    again += twice ? bytes : 0;
    sectors += Sectors(access, vectors) * (twice ? 2 : 1);
  }
  price.registers = kBaseRegisters + 16 + v.unroll * PackWords(vectors, false);
  const int resident = Resident(threads, price.registers);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  const double columns = CeilDivide(double(outer_), v.across);
  const double blocks = columns * v.parts;
  const double slots = double(target_.multiprocessors) * resident;
  price.memory_ns =
      std::max((price.bytes + again * SecondRead(again, blocks, slots)) /
                   target_.memory_bytes_per_ns,
               sectors / (kSectorsPerCycle * chip));
  const double idle = columns * v.across / double(outer_);
  price.issue_ns = (Issue(vectors, false, false) * 1.6 +
                    double(outer_) * double(reduced_) * 8) *
                   idle / (chip * kLanesPerCycle);
  const double steps = CeilDivide(
      CeilDivide(double(reduced_), double(v.parts) * v.down), v.unroll);
  double block_ns = steps * 2 * kLoadNs + v.down * 30.0 + kJoinBlockNs;
  if (v.parts > 1) {
    block_ns +=
        kJoinPartsNs + CeilDivide(double(v.parts), v.down) * kLoadNs / 2;
  }
  price.latency_ns = std::max(1.0, blocks / slots) * block_ns;
  return Finish(price, resident * threads / 32);
}

}  // namespace kiln

// Prices of products of matrices by tensor cores: cost_model.h.

#include <algorithm>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"

namespace kiln {
namespace {

// Fitted to 8192 x 4096 x 32 and 4096 x 4096 x 16 on an H100, in several mappings each:
// 27 to 38 us, and 14.8 to 16.3 (bench/records/h100_contractions.md).
//
// Cycles of a multiprocessor for a warp's access: of rows or columns apart, a sector of
// each; of 16 bytes a lane.
constexpr double kApartCycles = 8;
constexpr double kWideCycles = 16;
// The same for an mma.sync.
constexpr double kMultiplyCycles = 2;
// The share of the lesser costs that is not overlapped where there is a second step:
// warps that wait for its fragments write no results.
constexpr double kNotOverlapped = 0.4;
// Registers of fragments that are asked for a step ahead.
constexpr int kAheadRegisters = 16;
constexpr int kSumRegisters = 16;  // of a tile and strip

// Cycles that bring a step's fragments of a factor. Along the sum they are `points`
// accesses of 4 elements, along the factor's own axis 4 of `across`.
double FragmentCycles(const MatrixProduct::Factor& factor, int points,
                      int across) {
  const int width = factor.WidthFor(across);
  const int accesses = factor.along_depth ? points : 4;
  if (!factor.MovesWide(across)) return accesses * width * kApartCycles;
  return accesses * (width == 8 ? kWideCycles : kApartCycles);
}

}  // namespace

Price NestCosts::PriceCuda(const CudaProducts& v) const {
  Price price;
  price.fits = product_.has_value();
  if (!price.fits) return price;
  const MatrixProduct& p = *product_;
  const uint32_t last = facts_.num_outer - 1;
  const auto rows = double(extents_[p.rows.axis]);
  const auto columns = double(extents_[last]);
  const double blocks =
      double(outer_) / (rows * columns) *
      CeilDivide(rows, double(v.down) * v.tiles * kTileRows) *
      CeilDivide(columns, double(v.across) * v.strips * kStripColumns);
  const double warps = blocks * v.down * v.across;
  const double steps = CeilDivide(double(p.depth), kDepthStep);

  const PricedVectors& vectors = VectorsFor(last, 8, false);
  double sectors = 0;
  double each = outer_work_;  // instructions of a lane for a sum
  for (const Access& access : accesses_) {
    if (access.reduced) {
      price.bytes += access.points * double(access.bytes);
      continue;
    }
    price.bytes += BytesAlong(access, last, v.strips * kStripColumns);
    sectors += Sectors(access, vectors);
    each += 5.0 / vectors.width + (access.bytes < 4 ? 1 : 0);
  }
  price.registers = kBaseRegisters + v.tiles * v.strips * kSumRegisters +
                    (steps > 1 ? kAheadRegisters : 0);
  const int threads = ThreadsOf(v);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  const double cycles =
      std::max(FragmentCycles(p.rows, 2 * v.tiles, 2 * v.tiles) +
                   v.strips * FragmentCycles(p.columns, 4, 8),
               4.0 * v.tiles * v.strips * kMultiplyCycles);
  const double points = warps * v.tiles * kTileRows * v.strips * kStripColumns;
  // Accesses go on beside arithmetic.
  price.issue_ns = std::max(warps * steps * cycles / chip,
                            points * each / (chip * kLanesPerCycle));
  const int most = Resident(threads, price.registers);
  price.one_each = blocks <= target_.multiprocessors;
  price.latency_ns =
      std::max(1.0, blocks / (double(target_.multiprocessors) * most)) *
      kLoadNs;
  return Finish(price, most * threads / 32, steps > 1 ? kNotOverlapped : 0);
}

}  // namespace kiln

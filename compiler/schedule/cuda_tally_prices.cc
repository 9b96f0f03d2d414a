// Prices of CUDA's tallies and counts: cost_model.h.

#include <algorithm>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"
#include "compiler/schedule/tally_tiles.h"

namespace kiln {

namespace {

// Instructions for a point of a tally: a ballot for each bit of its value, its rank and
// its position. Then those for exchanging a value through shared memory.
constexpr double kTallyPoint = 60;
constexpr double kExchange = 12;
// Instructions for an addition to shared memory, in which some lanes of a warp collide.
constexpr double kCountPoint = 10;

}  // namespace

Price NestCosts::PriceCuda(const CudaTallies& v) const {
  const uint32_t axis = facts_.num_axes - 1;
  const PricedVectors& vectors = VectorsFor(axis, 1, false);
  const double row = double(reduced_), rows = double(outer_);
  const double tiles = rows * CeilDivide(row, TileOf(v));
  Price price;
  double sectors = 0, stores = 0;
  for (const Access& access : accesses_) {
    if (!access.store) {
      price.bytes += BytesAlong(access, axis, 32);
      sectors += Sectors(access, vectors);
      continue;
    }
    // A tile writes its equal values side by side.
    const double bytes = rows * row * double(access.bytes);
    const double stretch = double(TileOf(v)) / v.values * double(access.bytes);
    price.bytes += bytes * (stretch < kSector ? kSector / stretch
                                              : 1 + kSector / stretch / 2);
    sectors += bytes / kSector * (1 + kSector / stretch);
    ++stores;
  }
  // Counts and sums are written, and read once.
  price.bytes += 4 * tiles * double(WorkspaceOf(v));
  price.registers =
      kBaseRegisters + 16 + v.run * (4 + PackWords(vectors, false));
  const int64_t shared =
      SharedBytesOf(v, WidestCell(nest_, buffers_, facts_)) + kSharedOfBlock;
  price.fits =
      shared <= target_.shared_bytes_per_multiprocessor &&
      price.registers * v.threads <= target_.registers_per_multiprocessor &&
      price.registers <= 128;
  const int resident = static_cast<int>(
      std::clamp<int64_t>(target_.shared_bytes_per_multiprocessor / shared, 1,
                          Resident(v.threads, price.registers)));
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  // A partial tile takes as long as a full one.
  price.issue_ns = (Issue(vectors, false, false) * (1 + stores) +
                    tiles * TileOf(v) * (kTallyPoint + stores * kExchange)) /
                   (chip * kLanesPerCycle);
  price.one_each = tiles <= target_.multiprocessors;
  const double rounds = tiles / (double(target_.multiprocessors) * resident);
  price.latency_ns = std::max(1.0, rounds) *
                     (2 * kLoadNs + kJoinPartsNs +
                      (4 + 4 * stores) * kJoinBlockNs / 2 + v.run * 50.0);
  return Finish(price, resident * v.threads / 32);
}

Price NestCosts::PriceCuda(const CudaCounts& v) const {
  const uint32_t axis = facts_.num_outer - 1;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, false);
  Price price;
  double sectors = 0, additions = 0;
  for (const Access& access : accesses_) {
    if (access.store) {
      additions += double(outer_);
      continue;
    }
    price.bytes += BytesAlong(access, axis, 32 * v.vector);
    sectors += Sectors(access, vectors);
  }
  const double row = CeilDivide(double(extents_[axis]), v.vector);
  const double blocks = double(outer_) / double(extents_[axis]) *
                        CeilDivide(row, double(v.threads) * v.unroll * v.steps);
  // Every block adds to the cells, which L2 keeps.
  sectors += blocks * v.cells;
  price.registers =
      kBaseRegisters + v.unroll * PackWords(vectors, false) + 2 * v.vector;
  price.fits = v.cells * 4 + kSharedOfBlock <= target_.shared_bytes_per_block;
  const int resident = Resident(v.threads, price.registers);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  price.issue_ns = (Issue(vectors, false, false) + additions * kCountPoint +
                    blocks * v.cells * 8) /
                   (chip * kLanesPerCycle);
  const double rounds = blocks / (double(target_.multiprocessors) * resident);
  price.latency_ns =
      std::max(1.0, rounds) * (v.steps * kLoadNs + 2 * kJoinBlockNs +
                               CeilDivide(v.cells, v.threads) * 100.0);
  return Finish(price, resident * v.threads / 32);
}

}  // namespace kiln

// Prices of CUDA's sorts: cost_model.h.

#include <algorithm>
#include <cmath>

#include "compiler/schedule/candidate_sizes.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

namespace {

// Instructions of a thread for each pass of a radix sort, and for each element: eight
// ballots and the rank, which follow one another. Estimated.
constexpr double kPassInstructions = 100;
constexpr double kRankInstructions = 60;
constexpr double kRankNs = 40;
constexpr double kPassNs = 400;
constexpr int kItemRegisters = 2;
// Instructions for an exchange of a bitonic network, the least time of one of its
// stages, and instructions for an element that is compared with the last place kept.
constexpr double kExchangeInstructions = 20;
constexpr double kStageNs = 40;
constexpr double kComparedInstructions = 8;

// The exchanges of a bitonic network for `keys` keys, in stages of keys / 2.
double Stages(double keys) {
  const double bits = std::ceil(std::log2(std::max(2.0, keys)));
  return bits * (bits + 1) / 2;
}

}  // namespace

Price NestCosts::PriceCuda(const CudaSorts& v) const {
  const uint32_t axis = facts_.num_axes - 1;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, false);
  const int64_t key_bytes =
      SizeInBytes(SortKeyType(nest_, *OnlyReduction(ScalarOp::kSort)));
  Price price;
  for (const Access& access : accesses_)
    price.bytes += BytesAlong(access, axis, v.threads * v.vector);
  price.registers = kBaseRegisters + 4 + kItemRegisters * v.items;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = price.bytes / target_.memory_bytes_per_ns;
  const auto passes = static_cast<double>(key_bytes);
  const double thread =
      passes * (v.items * kRankInstructions + kPassInstructions);
  price.issue_ns =
      (Issue(vectors, false, false) + double(outer_) * v.threads * thread) /
      (chip * kLanesPerCycle);
  const int64_t elements = int64_t{v.threads} * v.items;
  const int64_t shared =
      int64_t{32} * v.threads + elements * (key_bytes > 2 ? 6 : 4);
  const int64_t resident = std::clamp<int64_t>(
      target_.shared_bytes_per_multiprocessor / (shared + kSharedOfBlock), 1,
      Resident(v.threads, price.registers));
  price.fits =
      shared + kSharedOfBlock <= target_.shared_bytes_per_multiprocessor;
  price.latency_ns =
      std::max(1.0,
               double(outer_) / double(target_.multiprocessors * resident)) *
      (2 * kLoadNs + passes * (v.items * kRankNs + kPassNs));
  return Finish(price, static_cast<int>(resident) * v.threads / kWarp);
}

Price NestCosts::PriceCuda(const CudaSelections& v) const {
  const uint32_t axis = facts_.num_axes - 1;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, false);
  Price price;
  for (const Access& access : accesses_)
    price.bytes += BytesAlong(access, axis, v.threads * v.vector);
  price.registers = 32;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = price.bytes / target_.memory_bytes_per_ns;
  // The first tile is sorted whole. Of n later elements, the share p / n is among the
  // first p places so far.
  const double tile = double(v.threads) * v.vector * v.unroll;
  const double later =
      1 + v.places * std::log(std::max(1.0, double(reduced_) / tile)) /
              std::max(1, v.full - v.places);
  const double exchanges =
      Stages(tile) * tile / 2 + later * Stages(v.full) * v.full / 2;
  price.issue_ns =
      (Issue(vectors, false, false) +
       double(outer_) * (exchanges * kExchangeInstructions +
                         double(reduced_) * kComparedInstructions)) /
      (chip * kLanesPerCycle);
  const int64_t shared = int64_t{v.capacity} * 8;
  const int64_t resident = std::clamp<int64_t>(
      target_.shared_bytes_per_multiprocessor / (shared + kSharedOfBlock), 1,
      Resident(v.threads, price.registers));
  price.fits =
      shared + kSharedOfBlock <= target_.shared_bytes_per_multiprocessor;
  const double tiles = CeilDivide(double(reduced_), tile);
  const double wave = std::max(
      1.0, double(outer_) / double(target_.multiprocessors * resident));
  price.latency_ns =
      wave * (tiles * (kLoadNs + 3 * kJoinBlockNs) +
              (Stages(tile) + later * Stages(v.full)) * kStageNs);
  return Finish(price, static_cast<int>(resident) * v.threads / kWarp);
}

}  // namespace kiln

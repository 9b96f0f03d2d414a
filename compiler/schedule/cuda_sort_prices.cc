// Prices of CUDA's sorts: cost_model.h.

#include <algorithm>
#include <cmath>

#include "compiler/schedule/candidate_sizes.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"
#include "compiler/schedule/nest_facts.h"
#include "compiler/schedule/sort_memory.h"

namespace kiln {

namespace {

// Instructions of a thread for each pass of a radix sort, and for each element: eight
// ballots and the rank, which follow one another. Like all numbers here fitted to 353
// configurations on an H100 (bench/records/gpu_kernels.md).
constexpr double kPassInstructions = 320;
constexpr double kRankInstructions = 115;
constexpr double kRankNs = 50;
constexpr double kPassNs = 800;
constexpr int kItemRegisters = 4;
// Instructions for an exchange of a bitonic network, the least time of one of its
// stages, and instructions for an element that is compared with the last place kept.
constexpr double kExchangeInstructions = 42;
constexpr double kStageNs = 40;
constexpr double kComparedInstructions = 17;

// A bitonic network for `keys` keys: stages of keys / 2 exchanges.
struct Network {
  double keys, stages;
  explicit Network(double count) {
    const double bits = std::ceil(std::log2(std::max(2.0, count)));
    keys = std::exp2(bits);
    stages = bits * (bits + 1) / 2;
  }
  double instructions() const {
    return stages * keys / 2 * kExchangeInstructions;
  }
};

}  // namespace

Price NestCosts::PriceCuda(const CudaSorts& v) const {
  const uint32_t axis = facts_.num_axes - 1;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, false);
  const int64_t key_bytes =
      SizeInBytes(SortKeyType(nest_, *OnlyReduction(ScalarOp::kSort)));
  Price price;
  for (const Access& access : accesses_)
    price.bytes += BytesAlong(access, axis, v.threads * v.vector);
  price.registers = std::min(
      static_cast<int>(target_.registers_per_multiprocessor) / v.threads,
      kBaseRegisters + 12 + kItemRegisters * v.items);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = price.bytes / target_.memory_bytes_per_ns;
  const auto passes = static_cast<double>(key_bytes);
  const double thread =
      passes * (v.items * kRankInstructions + kPassInstructions);
  price.issue_ns =
      (Issue(vectors, false, false) + double(outer_) * v.threads * thread) /
      (chip * kLanesPerCycle);
  const int64_t shared = SharedBytesOf(v, key_bytes);
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
  const Network first(tile), full(v.full + 1);
  const double later =
      1 + v.places * std::log(std::max(1.0, double(reduced_) / tile)) /
              std::max(1, v.full - v.places);
  const double sorting = first.instructions() + later * full.instructions();
  price.issue_ns =
      (Issue(vectors, false, false) +
       double(outer_) * (sorting + double(reduced_) * kComparedInstructions)) /
      (chip * kLanesPerCycle);
  const int64_t shared = SharedBytesOf(v);
  const int64_t resident = std::clamp<int64_t>(
      target_.shared_bytes_per_multiprocessor / (shared + kSharedOfBlock), 1,
      Resident(v.threads, price.registers));
  price.fits =
      shared + kSharedOfBlock <= target_.shared_bytes_per_multiprocessor;
  const double tiles = CeilDivide(double(reduced_), tile);
  const double alone = sorting / (kLanesPerCycle * target_.cycles_per_ns);
  price.latency_ns =
      std::max(1.0,
               double(outer_) / double(target_.multiprocessors * resident)) *
      (tiles * (kLoadNs + kJoinBlockNs) +
       std::max(alone, (first.stages + later * full.stages) * kStageNs));
  return Finish(price, static_cast<int>(resident) * v.threads / kWarp);
}

}  // namespace kiln

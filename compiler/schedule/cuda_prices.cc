// Prices of CUDA's variants: cost_model.h.

#include <algorithm>
#include <cmath>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"
#include "compiler/schedule/reduce_ops.h"

namespace kiln {

namespace {

// The extra cost of points whose groups may be partial, since warps take both branches.
// The same is assumed for stores beside peeled columns.
constexpr double kPartialPoints = 0.41;
// Time that a thread takes for an instruction of its group, once the loads are there.
constexpr double kPointNs = 0.56;
// If the number of rows is symbolic, the loads of a thread wait for one another.
constexpr double kSymbolicLoads = 5;
// Of columns with peeled groups: registers that say where a thread's groups begin and
// end, and how long a block takes to move sums. Of all columns: how much longer memory
// takes for rows that begin inside of a sector.
constexpr int kPeeledRegisters = 6;
constexpr double kRealignNs = 600;
constexpr double kOddRows = 1.08;
// The weight of the places that stay empty in the last round of blocks.
constexpr double kLastRound = 0.1;

}  // namespace

Price NestCosts::PriceCuda(const CudaPoints& v) const {
  const uint32_t axis =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, v.peel != 0);
  Price price;
  double sectors = 0;
  bool gathers = false;
  bool waits = false;  // loads that are not issued ahead, group after group
  const std::vector<double>& sectors_each = SectorsOf(vectors);
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const Access& access = accesses_[i];
    sectors += sectors_each[i];
    if (access.atomic && MotionAlong(access, axis) == Motion::kIrregular)
      sectors += kAtomicSectors * double(outer_);
    gathers |= access.gathered && !access.store;
    waits |= !access.plain && !access.store;
  }
  price.bytes = BytesOnce(axis, 32 * v.vector);
  price.registers =
      kBaseRegisters + v.unroll * PackWords(vectors, false) + 2 * v.vector;
  price.fits = price.registers <= 128;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  const double issue = Issue(vectors, false, false);
  const bool partial = vectors.cut && vectors.width > 1;
  price.issue_ns =
      issue * (partial ? 1 + kPartialPoints : 1) / (chip * kLanesPerCycle);
  const double groups =
      static_cast<double>(outer_) / static_cast<double>(v.vector);
  const int most = Resident(v.threads, price.registers);
  const double slots = double(target_.multiprocessors) * most;
  const double blocks = CeilDivide(groups, double(v.threads) * v.unroll);
  price.one_each = blocks <= target_.multiprocessors;
  // The last round of blocks takes as long as the others.
  if (blocks > slots && blocks < 6 * slots) {
    const double rounds = blocks / slots;
    price.memory_ns *= 1 + kLastRound * (std::ceil(rounds) / rounds - 1);
  }
  price.latency_ns = std::max(1.0, blocks / slots) *
                     (kLoadNs * (gathers ? 2 : 1) * (waits ? v.unroll : 1) +
                      kPointNs * issue / double(outer_) * v.vector * v.unroll);
  for (const Access& access : accesses_) {
    if (!access.atomic) continue;
    price.latency_ns =
        std::max(price.latency_ns, double(outer_) / access.points * kAtomicNs);
  }
  return Finish(price, most * v.threads / 32);
}

// Time that a block of columns takes if no other block uses the memory.
double NestCosts::ColumnBlockNs(const CudaColumns& v,
                                const PricedVectors& vectors) const {
  const double steps =
      CeilDivide(double(reduced_) / v.parts, double(v.down) * v.unroll);
  const bool symbolic = !facts_.extents.back().is_constant();
  const double loads_ns = static_cast<double>(passes_.passes.size()) *
                          kColumnLoadNs * (symbolic ? kSymbolicLoads : 1);
  const double instructions = Issue(vectors, false, false) /
                              (double(outer_) * double(reduced_)) * v.vector *
                              v.unroll;
  const double ns =
      steps * (loads_ns + kColumnNs * instructions) + 150 +
      reductions_ * (kJoinBlockNs * std::log2(std::max(2, v.down)) / 2 +
                     kRealignNs * v.peel);
  if (v.parts == 1) return ns;
  return ns + kJoinPartsNs +
         CeilDivide(double(v.parts), double(v.down) * 4) * kLoadNs;
}

NestCosts::ColumnBlocks NestCosts::ColumnBlocksOf(const CudaColumns& v) const {
  ColumnBlocks all;
  const double columns = double(v.vector) * v.across;
  all.count = CeilDivide(double(outer_), columns);
  if (v.peel == 0) return all;
  const auto row = double(extents_[facts_.num_outer - 1]);
  const double of_row = CeilDivide(row, columns);
  all.count = double(outer_) / row * of_row;
  all.beside = (v.across + 1.0) / v.across;
  all.rows_are_cut = of_row > 1;
  for (const Access& access : accesses_)
    if (access.store && access.reduced) all.both_ways = 1 + kPartialPoints;
  return all;
}

Price NestCosts::PriceCuda(const CudaColumns& v) const {
  if (v.down == 1 && v.parts == 1) return PriceAlone(v);
  const uint32_t axis =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, v.peel != 0);
  const int threads = ThreadsOf(v);
  Price price;
  double sectors = 0;
  bool odd_rows = false;
  const std::vector<double>& sectors_each = SectorsOf(vectors);
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const Access& access = accesses_[i];
    const double bytes = BytesAlong(access, axis, v.across * v.vector);
    odd_rows |=
        access.reduced && MotionAlong(access, axis) == Motion::kContiguous &&
        !RestIsMultiple(*access.offset, axis, int(kSector) / access.bytes);
    price.bytes += bytes * access.passes;
    sectors += sectors_each[i] * access.passes;
  }
  int accumulators = 0;
  int64_t most = 0;
  for (const ScalarNode& node : nest_.body) {
    if (node.op != ScalarOp::kReduce) continue;
    accumulators += static_cast<int>(AccumulatorBytes(node) / 4);
    most = std::max(most, AccumulatorBytes(node));
  }
  price.registers = kBaseRegisters + v.unroll * PackWords(vectors, false) +
                    v.vector * (accumulators + 1) + kPeeledRegisters * v.peel;
  price.fits = price.registers <= 168 &&
               int64_t{price.registers} * threads <=
                   target_.registers_per_multiprocessor &&
               most * threads * v.vector <= target_.shared_bytes_per_block;
  const ColumnBlocks all = ColumnBlocksOf(v);
  // Both blocks read a group that they share.
  if (all.rows_are_cut) {
    price.bytes *= all.beside;
    sectors *= all.beside;
  }
  const double blocks = all.count * v.parts;
  const double slots =
      double(target_.multiprocessors) * Resident(threads, price.registers);
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  if (v.parts > 1)
    price.bytes += 2.0 * v.parts * double(outer_) * 4 * accumulators;
  const double rounds = blocks / slots;
  const double uneven = Unevenness(blocks, slots);
  const double across_idle = all.count * all.beside * v.across * v.vector /
                             std::max(1.0, double(outer_));
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip)) *
                    uneven * (odd_rows ? kOddRows : 1);
  // With fewer blocks than multiprocessors, some of them have nothing to issue.
  const double busy = std::min(1.0, blocks / target_.multiprocessors);
  price.issue_ns = Issue(vectors, false, false) * across_idle * all.both_ways /
                   (chip * kLanesPerCycle * busy) * uneven;
  price.latency_ns =
      (rounds < 6 ? std::ceil(rounds) : rounds) * ColumnBlockNs(v, vectors);
  return Finish(price, Resident(threads, price.registers) * threads / 32,
                v.unroll == 1 ? kStepApart : 0);
}

Price NestCosts::PriceCuda(const CudaSerial& v) const {
  const uint32_t axis =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  const PricedVectors& vectors = VectorsFor(axis, 1, false);
  Price price;
  double sectors = 0;
  for (const Access& access : accesses_) {
    price.bytes += BytesAlong(access, axis, 32) * access.passes;
    sectors += Sectors(access, vectors) * access.passes;
  }
  price.registers = kBaseRegisters + 4 * reductions_;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kSectorsPerCycle * chip));
  const double slots =
      double(target_.multiprocessors) * Resident(v.threads, price.registers);
  const double blocks = CeilDivide(double(outer_), v.threads);
  const double busy = std::min(1.0, blocks / target_.multiprocessors);
  price.issue_ns =
      Issue(vectors, false, false) / (chip * kLanesPerCycle * busy);
  price.latency_ns = std::max(1.0, blocks / slots) *
                     (double(reduced_) * kLoadNs / 3 *
                          static_cast<double>(passes_.passes.size()) +
                      kLoadNs);
  return Finish(price, Resident(v.threads, price.registers) * v.threads / 32);
}

}  // namespace kiln

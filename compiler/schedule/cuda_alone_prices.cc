// Prices of CUDA's columns whose threads share nothing: the rows of a window.

#include <algorithm>

#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/cuda_costs.h"
#include "compiler/schedule/reduce_ops.h"

namespace kiln {

namespace {

// Sectors that a multiprocessor moves from L1. Neighbours further apart are a line
// each, which is a cycle's work.
constexpr double kL1SectorsPerCycle = 4;
// Instructions of an access with its address, and of a step of the loop.
constexpr double kAccess = 3;
constexpr double kStep = 10;
constexpr int kMostRegisters = 168;

}  // namespace

Price NestCosts::PriceAlone(const CudaColumns& v) const {
  const uint32_t axis =
      facts_.num_outer > 0 ? facts_.num_outer - 1 : Vectors::kNoAxis;
  const PricedVectors& vectors = VectorsFor(axis, v.vector, false);
  const auto width = static_cast<double>(v.vector);
  const double threads = double(outer_) / width;
  const double steps = threads * static_cast<double>(reduced_);
  Price price;
  price.bytes = BytesOnce(axis, v.across * v.vector);
  // Of a step: instructions, sectors of L1, and 32-bit registers of the loads.
  double instructions = kStep, once = outer_work_ * width, sectors = 0;
  int words = 0;
  for (const Access& access : accesses_) {
    const Motion motion = MotionAlong(access, axis);
    const bool moves = motion != Motion::kStill;
    const bool wide = moves && IsWideAccess(buffers_[access.buffer],
                                            *access.offset, vectors, facts_);
    const double pieces = moves && !wide ? width : 1;
    const double bytes = double(access.bytes) * (moves ? width : 1);
    (access.reduced ? instructions : once) += kAccess * pieces;
    sectors += (access.reduced ? steps : threads) *
               (motion == Motion::kContiguous ? bytes / kSector
                : moves                       ? width * kL1SectorsPerCycle
                                              : 1.0 / 32);
    if (access.reduced && !access.store)
      words += static_cast<int>(CeilDivide(bytes, 4));
  }
  int accumulators = 0;
  for (const KernelPass& pass : passes_.passes) {
    // What does not move along the axis is computed once a group.
    for (ScalarId id : pass.inside) {
      const bool moves = (facts_.axes[id] & AxisBit(axis)) != 0;
      instructions += Instructions(id) * (moves ? width : 1);
    }
    for (ScalarId id : pass.reduces) {
      instructions += Instructions(id) * width;
      accumulators += static_cast<int>(AccumulatorBytes(nest_.body[id]) / 4);
    }
  }
  price.registers = kBaseRegisters + words + v.vector * (accumulators + 1);
  price.fits = price.registers <= kMostRegisters;
  const double chip = target_.multiprocessors * target_.cycles_per_ns;
  price.memory_ns = std::max(price.bytes / target_.memory_bytes_per_ns,
                             sectors / (kL1SectorsPerCycle * chip));
  const double blocks = CeilDivide(threads, v.across);
  const int resident = Resident(v.across, price.registers);
  const double slots = double(target_.multiprocessors) * resident;
  // A chip that is not full does not issue all it could.
  const double busy = std::min(1.0, blocks / target_.multiprocessors);
  price.issue_ns =
      (instructions * steps + once * threads) / (chip * kLanesPerCycle * busy);
  price.latency_ns = std::max(1.0, blocks / slots) *
                     static_cast<double>(reduced_) *
                     (kColumnLoadNs + kColumnNs * instructions);
  return Finish(price, resident * v.across / 32, kStepApart);
}

}  // namespace kiln

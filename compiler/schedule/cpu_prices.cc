// Prices of the CPU's variants: cost_model.h.

#include <algorithm>
#include <cmath>

#include "compiler/schedule/cost_model.h"

namespace kiln {

// One core with vectors of the target's width. Source of the numbers: loops over
// arrays of 64 MB on the cores that the benchmarks run on.
Price NestCosts::PriceCpu(uint32_t vector_axis, uint32_t across,
                          double overhead_ns) const {
  constexpr double kBytesPerNs = 10;
  constexpr double kOperationsPerNs = 4;
  constexpr double kLine = 64;
  const bool reduces = facts_.num_axes > facts_.num_outer;
  const double lanes = target_.vector_bytes / 4.0;
  const double inner =
      static_cast<double>(outer_) * static_cast<double>(reduced_);
  Price price;
  double gathered = 0;
  for (const Access& access : accesses_) {
    const double bytes = access.points * double(access.bytes);
    const Motion motion = MotionAlong(access, vector_axis);
    // A square of it is moved in vectors, and transposed by two instructions for
    // each of log2(lanes) steps.
    const bool transposed = motion == Motion::kStrided &&
                            MotionAlong(access, across) == Motion::kContiguous;
    const bool strided = !transposed && (motion == Motion::kStrided ||
                                         motion == Motion::kIrregular);
    price.bytes += bytes * access.passes *
                   (strided ? std::min(kLine / double(access.bytes), 4.0) : 1);
    const double all =
        access.reduced || !reduces ? inner : static_cast<double>(outer_);
    // Lane by lane, or by vectors.
    const double each = strided      ? 2.0
                        : transposed ? (3 + 2 * std::log2(lanes)) / lanes
                                     : 1 / lanes;
    gathered += all * access.passes * each;
  }
  price.memory_ns = price.bytes / kBytesPerNs;
  price.issue_ns =
      (gathered + inner * work_ / lanes + double(outer_) * outer_work_) /
      kOperationsPerNs;
  price.latency_ns = double(outer_) * overhead_ns;
  return Finish(price, kCpuOverlap);
}

}  // namespace kiln

#include "compiler/tune/time_kernel.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "proto/base/status.h"

namespace kiln {
namespace {

// The size of a kernel's buffer, with symbols at their hints.
int64_t BytesOf(const KernelPlan& plan, BufferId id) {
  const Buffer& buffer = plan.buffers[id];
  const SymExpr elements = buffer.offset + Product(buffer.sizes);
  return std::max<int64_t>(
      1, plan.shapes.Hint(elements) * SizeInBytes(buffer.dtype));
}

// Describes the launch to a stopwatch. The caller adds the object code.
TimedKernel LaunchOf(const KernelSource& source, const KernelPlan& plan,
                     const Target& target) {
  TimedKernel timed;
  timed.kind = target.kind;
  timed.target = target.name;
  timed.symbol = source.symbol;
  for (const KernelParam& param : source.params) {
    const bool slot = param.kind == KernelParam::Kind::kSeedSlot;
    if (slot || param.kind == KernelParam::Kind::kBuffer) {
      timed.order.push_back(static_cast<int32_t>(timed.buffer_bytes.size()));
      timed.buffer_bytes.push_back(slot ? static_cast<int64_t>(sizeof(uint64_t))
                                        : BytesOf(plan, param.buffer));
      continue;
    }
    const bool seed = param.kind == KernelParam::Kind::kSeed;
    timed.order.push_back(~static_cast<int32_t>(timed.scalars.size()));
    timed.scalars.push_back(seed ? 0 : plan.shapes.Hint(param.scalar));
  }
  for (size_t d = 0; d < source.grid.size(); ++d)
    timed.grid[d] = plan.shapes.Hint(source.grid[d]);
  if (source.blocks_per_multiprocessor > 0) {
    timed.grid[0] = std::min<int64_t>(
        timed.grid[0],
        int64_t{source.blocks_per_multiprocessor} * target.multiprocessors);
  }
  std::copy(std::begin(source.block), std::end(source.block), timed.block);
  timed.shared_bytes = source.shared_bytes;
  return timed;
}

}  // namespace

absl::StatusOr<TimedKernel> BuildTimedKernel(const KernelSource& source,
                                             const KernelPlan& plan,
                                             const Target& target,
                                             Toolchain& toolchain) {
  const std::vector<UnitSource> units = GroupIntoUnits({source}, target);
  ASSIGN_OR_RETURN(BuiltObject built,
                   toolchain.Build(units[0].source, UnitFlags(target)));
  TimedKernel timed = LaunchOf(source, plan, target);
  timed.image = std::move(built.image);
  return timed;
}

absl::StatusOr<double> TimeKernel(const KernelSource& source,
                                  const KernelPlan& plan, const Target& target,
                                  int repeats, Toolchain& toolchain,
                                  Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(const TimedKernel timed,
                   BuildTimedKernel(source, plan, target, toolchain));
  return stopwatch.MedianSeconds(timed, repeats);
}

}  // namespace kiln

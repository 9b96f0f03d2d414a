#include "compiler/schedule/candidate_sizes.h"

#include <algorithm>

namespace kiln {

std::vector<Width> WidthsOn(const NestCosts& costs, uint32_t axis) {
  std::vector<Width> widths;
  const int widest = costs.WidestVector(axis);
  const auto fits = [&](int v) {
    return v <= std::max<int64_t>(1, costs.extent(axis));
  };
  int plain = widest;
  while (plain > 1 && !(fits(plain) && costs.AllWide(axis, plain))) plain /= 2;
  widths.push_back({plain, 0});
  // Half as wide, which gives more threads less work each, for small kernels.
  if (plain == widest && plain > 2) widths.push_back({plain / 2, 0});
  if (plain < widest && fits(2 * widest)) {
    widths.push_back({widest, 1});
    if (widest > 4) widths.push_back({widest / 2, 1});
  }
  return widths;
}

int PartsFor(const NestCosts& costs, int64_t blocks, int64_t steps,
             int64_t least_steps, int per_multiprocessor) {
  const int64_t wanted = CeilDivide(
      int64_t{costs.target().multiprocessors} * per_multiprocessor, blocks);
  return static_cast<int>(std::clamp<int64_t>(
      std::min(wanted, steps / least_steps), 1, kMostParts));
}

int64_t LongestRow(const NestCosts& costs) {
  SymExpr row = 1;
  for (uint32_t a = costs.facts().num_outer; a < costs.facts().num_axes; ++a)
    row = row * costs.facts().extents[a];
  return row.is_constant() ? costs.reduced() : costs.shapes().Range(row).max;
}

}  // namespace kiln

#include "compiler/schedule/variant_candidates.h"

#include <algorithm>
#include <initializer_list>

#include "compiler/schedule/tile_accesses.h"

namespace kiln {

namespace {

// Groups that a thread keeps at most: every one is written out.
constexpr int64_t kMostHeld = 16;
constexpr int kMostThreads = 1024;
constexpr int kWarp = 32;
// Parts of one outer point; the last block adds them all.
constexpr int64_t kMostParts = 1024;
// Short rows of a CPU are not worth a second accumulator.
constexpr int64_t kShortCpuRow = 256;

// A width of vectors and whether groups are peeled for it.
struct Width {
  int vector;
  int peel;
};

// The widest vector that needs no peeling; and with peeling the widest of all.
std::vector<Width> WidthsOn(const NestCosts& costs, uint32_t axis) {
  std::vector<Width> widths;
  const int widest = costs.WidestVector(axis);
  const auto fits = [&](int v) {
    return v <= std::max<int64_t>(1, costs.extent(axis));
  };
  int plain = widest;
  while (plain > 1 && !(fits(plain) && costs.AllWide(axis, plain))) plain /= 2;
  widths.push_back({plain, 0});
  // Half as wide: less to a thread where there is little to do.
  if (plain == widest && plain > 2) widths.push_back({plain / 2, 0});
  if (plain < widest && fits(2 * widest)) {
    widths.push_back({widest, 1});
    if (widest > 4) widths.push_back({widest / 2, 1});
  }
  return widths;
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

// Parts that give the chip about two blocks a multiprocessor, none shorter than
// `least_steps` of its `steps`.
int PartsFor(const NestCosts& costs, int64_t blocks, int64_t steps,
             int64_t least_steps, int per_multiprocessor) {
  const int64_t wanted = CeilDivide(
      int64_t{costs.target().multiprocessors} * per_multiprocessor, blocks);
  return static_cast<int>(std::clamp<int64_t>(
      std::min(wanted, steps / least_steps), 1, kMostParts));
}

void AddPoints(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const uint32_t outer = costs.facts().num_outer;
  if (outer == 0) {
    out.push_back(CudaPoints{.threads = 32});
    return;
  }
  const uint32_t last = outer - 1;
  for (const Width& width : WidthsOn(costs, last)) {
    for (const int unroll : {1, 2, 4}) {
      if (costs.outer() / width.vector < 256 * unroll && unroll > 1) break;
      out.push_back(CudaPoints{width.vector, unroll, 256, width.peel});
    }
  }
  const int widest = costs.WidestVector(last);
  for (uint32_t axis = 0; axis < last; ++axis) {
    if (costs.extent(axis) < 16 || costs.extent(last) < 16) continue;
    for (const int edge : {64, 32}) {
      const TileAccesses tiled = AccessesAcross(
          costs.nest(), costs.facts(), costs.buffers(), axis, edge);
      if (tiled.empty()) continue;
      for (int vector = std::max(widest, costs.WidestVector(axis)); vector >= 1;
           vector /= 2) {
        const bool whole =
            IsMultiple(costs.facts().extents[axis], vector) &&
            IsMultiple(costs.facts().extents[last], vector);
        const int side = edge / vector;
        if ((vector > 1 && !whole) || side < 8 || kTileThreads / side > edge)
          continue;
        out.push_back(CudaTiles{static_cast<int>(axis), edge, vector});
      }
    }
  }
}

void AddRows(const NestCosts& costs, int64_t max_row,
             std::vector<KernelVariant>& out) {
  const uint32_t last = costs.facts().num_axes - 1;
  const bool constant_row = [&] {
    for (uint32_t a = costs.facts().num_outer; a <= last; ++a)
      if (!costs.facts().extents[a].is_constant()) return false;
    return true;
  }();
  // What is held is as long as the longest row.
  SymExpr row = 1;
  for (uint32_t a = costs.facts().num_outer; a <= last; ++a)
    row = row * costs.facts().extents[a];
  const int64_t longest =
      constant_row ? costs.reduced() : costs.shapes().Range(row).max;
  for (const Width& width : WidthsOn(costs, last)) {
    const int64_t groups =
        CeilDivide(costs.reduced(), width.vector) + width.peel;
    const int64_t most_groups =
        longest > (int64_t{1} << 40)
            ? longest
            : CeilDivide(longest, width.vector) + width.peel;
    for (int lanes = 1; lanes <= kMostThreads; lanes *= 2) {
      if (lanes > PowerOfTwoAtLeast(groups)) break;
      const int rows = std::max(1, 128 / lanes);
      const int64_t held = CeilDivide(most_groups, lanes);
      const bool may_hold = max_row == 0 || longest <= max_row;
      if (held <= kMostHeld && may_hold) {
        CudaRows v{.vector = width.vector,
                   .lanes = lanes,
                   .rows = rows,
                   .held = static_cast<int>(held),
                   .peel = width.peel};
        out.push_back(v);
        if (held > 1) {
          v.unroll = static_cast<int>(held);
          out.push_back(v);
        }
        if (costs.HasCostlyToHold()) {
          v.hold_costly = 1;
          out.push_back(v);
        }
      }
      if (lanes < kWarp || (groups <= lanes && lanes > kWarp)) continue;
      for (const int unroll : {1, 4}) {
        CudaRows v{.vector = width.vector,
                   .lanes = lanes,
                   .rows = rows,
                   .unroll = unroll,
                   .peel = width.peel};
        out.push_back(v);
        if (!costs.MaySplit() || lanes < 128) continue;
        const int64_t blocks = CeilDivide(costs.outer(), rows);
        for (const int blocks_each : {2, 8}) {
          v.parts = PartsFor(costs, blocks, groups, int64_t{4} * lanes,
                             blocks_each);
          if (v.parts > 1) out.push_back(v);
        }
      }
    }
  }
}

void AddColumns(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const uint32_t outer = costs.facts().num_outer;
  if (outer == 0) return;
  const int widest = costs.WidestVector(outer - 1);
  int plain = widest;
  while (plain > 1 && (plain > costs.extent(outer - 1) ||
                       !costs.AllWide(outer - 1, plain))) {
    plain /= 2;
  }
  for (int vector = plain; vector >= 1; vector /= 2) {
    if (vector < plain && vector * 4 < plain) break;
    const int64_t groups = CeilDivide(costs.outer(), vector);
    for (int across = 4; across <= 64; across *= 2) {
      if (across > 4 && across / 2 >= groups) break;
      for (const int threads : {128, 256, 512}) {
        const int down = threads / across;
        if (down > PowerOfTwoAtLeast(costs.reduced())) continue;
        for (const int unroll : {1, 2, 4, 8}) {
          CudaColumns v{vector, across, down, unroll, 1};
          out.push_back(v);
          if (!costs.MaySplit()) continue;
          for (const int blocks_each : {1, 2, 4}) {
            v.parts = PartsFor(costs, CeilDivide(groups, across),
                               costs.reduced(), int64_t{down} * unroll,
                               blocks_each);
            if (v.parts > 1) out.push_back(v);
          }
        }
      }
    }
  }
}

void AddCpu(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const NestFacts& facts = costs.facts();
  if (facts.reduced == 0) {
    out.push_back(CpuPoints{});
    for (int axis = 0; axis + 1 < static_cast<int>(facts.num_outer); ++axis) {
      const auto a = static_cast<uint32_t>(axis);
      if (costs.extent(a) < 16 || costs.extent(facts.num_outer - 1) < 16)
        continue;
      if (!AccessesAcross(costs.nest(), facts, costs.buffers(), a, 1).empty())
        out.push_back(CpuTiles{.axis = axis});
    }
    return;
  }
  if (!facts.has_scan) {
    bool tuple = false;
    for (const ScalarNode& node : costs.nest().body)
      tuple |= node.reduce == ReduceOp::kArgMax ||
               node.reduce == ReduceOp::kArgMin;
    const SymExpr& row = facts.extents[facts.num_axes - 1];
    const bool is_short = row.is_constant() && row.constant() < kShortCpuRow;
    out.push_back(CpuRows{.accumulators = tuple || is_short ? 1 : 2});
  }
  out.push_back(CpuColumns{});
}

}  // namespace

std::vector<KernelVariant> CandidatesFor(const NestCosts& costs,
                                         int64_t max_row) {
  std::vector<KernelVariant> out;
  if (costs.target().kind == TargetKind::kCpu) {
    AddCpu(costs, out);
    return out;
  }
  const NestFacts& facts = costs.facts();
  if (facts.reduced == 0) {
    AddPoints(costs, out);
    return out;
  }
  if (!facts.has_scan) {
    AddRows(costs, max_row, out);
    AddColumns(costs, out);
  }
  if (facts.has_scan || costs.reduced() <= 64) {
    out.push_back(CudaSerial{});
    out.push_back(CudaSerial{.threads = 64});
  }
  return out;
}

}  // namespace kiln

#include "compiler/schedule/variant_candidates.h"

#include <algorithm>
#include <initializer_list>

#include "compiler/schedule/candidate_sizes.h"
#include "compiler/schedule/column_candidates.h"
#include "compiler/schedule/column_sums.h"
#include "compiler/schedule/finish_variant.h"
#include "compiler/schedule/scan_candidates.h"
#include "compiler/schedule/tile_accesses.h"
#include "compiler/schedule/tile_walks.h"
#include "compiler/schedule/vector_masks.h"

namespace kiln {

namespace {

// The most groups that a thread holds: the code of each is written out.
constexpr int64_t kMostHeld = 16;
constexpr int64_t kMostHeldElements = kMostHeld * 8 * kMostThreads;
// The most columns that a thread sums over a stretch.
constexpr int64_t kMostSummed = 32;
// The compute capability from which copies to shared memory are asynchronous (cp.async).
constexpr int kAsyncCopies = 80;
// The compute capability from which blocks read each other's shared memory.
constexpr int kClusters = 90;
constexpr int kLeastStagedLanes = 128;
// Shorter rows are held in registers.
constexpr int64_t kLeastStagedRow = 16384;
// On a CPU a second accumulator does not pay for shorter rows.
constexpr int64_t kShortCpuRow = 256;
// The most values of a point for which the vectors of a strip are written out.
constexpr size_t kShortCpuPass = 12;

// Elements of a tile along the last axis, and along the other one.
constexpr std::pair<int, int> kTileShapes[] = {
    {64, 64}, {64, 32}, {32, 64}, {32, 32}};

// The most elements of a tile that is moved element by element.
constexpr int kMostSingles = 64 * 32;

// Elements of a peeled tile, and of the longest axis that is one tile's.
constexpr int kLeastPeeled = 32 * 64;
constexpr int kMostPeeled = 128 * 64;
constexpr int64_t kMostFitted = 160;

// Widths of a tile's accesses along an axis: the widest that all of them may have, and
// half of it. Groups are whole. The tile has `edge` elements along the axis, and
// `beside` such rows, of which every thread of the block gets a group.
std::vector<int> TileWidths(const NestCosts& costs, uint32_t axis, int edge,
                            int beside) {
  std::vector<int> widths;
  for (int width = costs.WidestVector(axis); width >= 1; width /= 2) {
    const int side = edge / width;
    if (side < 8 || kTileThreads / side > beside) continue;
    const bool whole = IsMultiple(costs.facts().extents[axis], width) &&
                       costs.AllWide(axis, width);
    if (width > 1 && !whole) continue;
    widths.push_back(width);
    if (widths.size() == 2) break;
  }
  return widths;
}

// Lengths of a peeled tile along the axis: if the axis has only a few groups, also one
// that holds them all.
std::vector<int> PeeledLengths(const NestCosts& costs, uint32_t axis,
                               int width) {
  std::vector<int> lengths = {32, 64, 128};
  const int64_t all = CeilDivide(costs.extent(axis) + width - 1, width) * width;
  if (all <= kMostFitted && all % 32 != 0)
    lengths.push_back(static_cast<int>(all));
  return lengths;
}

// Whether groups of `width` along the axis may be partial.
bool AreCut(const NestCosts& costs, uint32_t axis, int width) {
  return MakeVectors(costs.nest(), costs.facts(), costs.buffers(),
                     costs.shapes(), axis, width, true)
      .cut;
}

// Tiles of rows of any length, with the widest vectors.
void AddPeeledTiles(const NestCosts& costs, uint32_t axis,
                    std::vector<KernelVariant>& out) {
  const uint32_t last = costs.facts().num_outer - 1;
  const int vector = costs.WidestVector(last);
  const int across = costs.WidestVector(axis);
  if (!AreCut(costs, last, vector) && !AreCut(costs, axis, across)) return;
  for (const int edge : PeeledLengths(costs, last, vector)) {
    for (const int depth : PeeledLengths(costs, axis, across)) {
      if (edge * depth < kLeastPeeled || edge * depth > kMostPeeled) continue;
      const CudaTiles v{static_cast<int>(axis), edge, depth, vector, across, 1};
      if (MayPeel(ThroughOf(v, costs.nest(), costs.facts(), costs.buffers()),
                  costs.nest()))
        out.push_back(v);
    }
  }
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
  // If accesses are strided along the axis, narrow groups lie closer together.
  for (const int vector : {2, 1}) {
    if (vector < widest && costs.AllWide(last, vector))
      out.push_back(CudaPoints{vector, 1, 256, 0});
  }
  for (uint32_t axis = 0; axis < last; ++axis) {
    if (costs.extent(axis) < 16 || costs.extent(last) < 16) continue;
    for (const auto& [edge, depth] : kTileShapes) {
      const TileAccesses tiled = AccessesAcross(
          costs.nest(), costs.facts(), costs.buffers(), axis, edge, depth);
      if (tiled.empty()) continue;
      const std::vector<int> across_widths =
          TileWidths(costs, axis, depth, edge);
      for (const int vector : TileWidths(costs, last, edge, depth)) {
        for (const int across : across_widths) {
          // Many steps of single elements take too many registers.
          if (edge * depth > kMostSingles && vector * across == 1) continue;
          out.push_back(
              CudaTiles{static_cast<int>(axis), edge, depth, vector, across});
        }
      }
    }
    AddPeeledTiles(costs, axis, out);
  }
}

// The most groups of the longest row. Each run of the last axis begins and ends a group.
int64_t MostGroups(const NestCosts& costs, const Width& width) {
  const NestFacts& facts = costs.facts();
  const uint32_t last = facts.num_axes - 1;
  SymExpr groups =
      CeilDiv(facts.extents[last], int64_t{width.vector}) + width.peel;
  for (uint32_t a = facts.num_outer; a < last; ++a)
    groups = groups * facts.extents[a];
  return groups.is_constant() ? groups.constant()
                              : costs.shapes().Range(groups).max;
}

// Rows of at most `most_groups` groups, held in shared memory. A block that walks a
// stretch copies the next row meanwhile; otherwise other blocks use the memory.
void AddStagedRows(const NestCosts& costs, CudaRows v, int64_t most_groups,
                   std::vector<KernelVariant>& out) {
  if (costs.target().compute_capability < kAsyncCopies) return;
  v.held = static_cast<int>(CeilDivide(most_groups, v.lanes));
  v.stages = v.stretch > 0 ? 2 : 1;
  out.push_back(v);
}

// Rows of at most `most_groups` groups, held in registers.
void AddHeldRows(const NestCosts& costs, CudaRows v, int64_t most_groups,
                 std::vector<KernelVariant>& out) {
  const int64_t held = CeilDivide(most_groups, v.lanes);
  if (held > kMostHeld) return;
  v.held = static_cast<int>(held);
  out.push_back(v);
  if (held > 1 && costs.LoadsForOnePass()) {
    v.unroll = static_cast<int>(held);
    out.push_back(v);
  }
  if (costs.HasCostlyToHold()) {
    v.hold_costly = 1;
    out.push_back(v);
  }
}

// Rows that each pass reads anew.
void AddLoopedRows(const NestCosts& costs, const CandidateLimits& limits,
                   CudaRows v, int64_t groups,
                   std::vector<KernelVariant>& out) {
  for (const int unroll : {1, 4}) {
    v.unroll = unroll;
    v.parts = 1;
    out.push_back(v);
    if (!limits.split || !costs.MaySplit() || v.lanes < 128) continue;
    const int64_t blocks = CeilDivide(costs.outer(), v.rows);
    for (const int blocks_each : {2, 4, 8}) {
      v.parts =
          PartsFor(costs, blocks, groups, int64_t{4} * v.lanes, blocks_each);
      if (v.parts > 1) out.push_back(v);
    }
  }
}

// Rows that a cluster of blocks holds, or reads anew in each pass: few rows are worked
// on at a time then, and fit into L2.
void AddClusters(const NestCosts& costs, const Width& width, int64_t longest,
                 int64_t max_row, std::vector<KernelVariant>& out) {
  if (costs.target().compute_capability < kClusters ||
      costs.reduced() < kLeastStagedRow || costs.passes().passes.size() < 2) {
    return;
  }
  const int64_t most = MostGroups(costs, width);
  for (const int lanes : {256, 512, 1024}) {
    for (const int cluster : {2, 4, 8}) {
      CudaRows v{.vector = width.vector,
                 .lanes = lanes,
                 .peel = width.peel,
                 .cluster = cluster};
      const bool may_hold = (max_row == 0 || longest <= max_row) &&
                            longest <= kMostHeldElements * cluster;
      if (may_hold) AddHeldRows(costs, v, CeilDivide(most, cluster), out);
      v.unroll = 4;
      out.push_back(v);
    }
  }
}

void AddRows(const NestCosts& costs, const CandidateLimits& limits,
             std::vector<KernelVariant>& out) {
  const int64_t max_row = limits.max_row;
  const int64_t longest = LongestRow(costs);
  const bool may_hold =
      (max_row == 0 || longest <= max_row) && longest <= kMostHeldElements;
  for (const Width& width : WidthsOn(costs, costs.facts().num_axes - 1)) {
    AddClusters(costs, width, longest, max_row, out);
    const int64_t groups =
        CeilDivide(costs.reduced(), width.vector) + width.peel;
    for (int lanes = 1; lanes <= kMostThreads; lanes *= 2) {
      if (lanes > PowerOfTwoAtLeast(groups)) break;
      const CudaRows v{.vector = width.vector,
                       .lanes = lanes,
                       .rows = std::max(1, 128 / lanes),
                       .peel = width.peel};
      if (may_hold) {
        const int64_t most = MostGroups(costs, width);
        AddHeldRows(costs, v, most, out);
        if (lanes >= kLeastStagedLanes && longest >= kLeastStagedRow &&
            costs.passes().passes.size() > 1) {
          AddStagedRows(costs, v, most, out);
        }
      }
      if (lanes == kWarp || (lanes > kWarp && groups > lanes))
        AddLoopedRows(costs, limits, v, groups, out);
    }
  }
}

// Rows whose values are also summed over stretches of rows. A thread keeps its columns,
// so groups are at the same columns in all rows.
void AddStretches(const NestCosts& costs, int64_t stretch,
                  std::vector<KernelVariant>& out) {
  if (!StretchesAreInOrder(costs.nest(), costs.facts(), costs.shapes())) return;
  const int64_t longest = LongestRow(costs);
  if (longest > kMostHeldElements) return;
  for (const Width& width : WidthsOn(costs, costs.facts().num_axes - 1)) {
    if (width.peel != 0) continue;
    const int64_t groups = MostGroups(costs, width);
    for (int lanes = kWarp; lanes <= kMostThreads; lanes *= 2) {
      if (lanes > kWarp && lanes > PowerOfTwoAtLeast(groups)) break;
      for (const int threads : {128, 256, 512}) {
        if (lanes > threads && threads != 512) continue;
        // The code of every element that a thread sums is written out in each pass.
        if (CeilDivide(groups, lanes) * width.vector > kMostSummed) continue;
        const CudaRows v{.vector = width.vector,
                         .lanes = lanes,
                         .rows = std::max(1, threads / lanes),
                         .stretch = static_cast<int>(stretch)};
        AddHeldRows(costs, v, groups, out);
        AddStagedRows(costs, v, groups, out);
      }
    }
  }
}

// Products of matrices by tensor cores. Fewer sums of a warp need fewer registers; more
// read its factors less often.
void AddProducts(const NestCosts& costs, std::vector<KernelVariant>& out) {
  if (!costs.product().has_value() ||
      costs.target().compute_capability < kHalfProducts) {
    return;
  }
  for (const CudaProducts& v :
       {CudaProducts{4, 2, 2, 1}, CudaProducts{4, 2, 2, 2},
        CudaProducts{4, 1, 2, 2}, CudaProducts{2, 2, 2, 2},
        CudaProducts{2, 1, 2, 2}, CudaProducts{1, 1, 2, 2}}) {
    out.push_back(v);
  }
}

// Whether the passes compute too little at a point for that to take most of the time.
bool HasShortPasses(const KernelPasses& passes) {
  return std::all_of(passes.passes.begin(), passes.passes.end(),
                     [](const KernelPass& pass) {
                       return pass.inside.size() <= kShortCpuPass;
                     });
}

void AddCpu(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const NestFacts& facts = costs.facts();
  if (facts.reduced == 0) {
    if (facts.num_outer > 0) {
      const std::vector<ScalarId> masks =
          RangeMasks(costs.nest(), facts, facts.num_outer - 1);
      if (!masks.empty() &&
          HoldInTheMiddle(masks, costs.nest(), facts, costs.shapes()))
        out.push_back(CpuPoints{.interior = 1});
    }
    out.push_back(CpuPoints{});
    for (int axis = 0; axis + 1 < static_cast<int>(facts.num_outer); ++axis) {
      const auto a = static_cast<uint32_t>(axis);
      if (costs.extent(a) < 16 || costs.extent(facts.num_outer - 1) < 16)
        continue;
      if (!AccessesAcross(costs.nest(), facts, costs.buffers(), a, 1, 1)
               .empty())
        out.push_back(CpuTiles{.axis = axis});
    }
    return;
  }
  if (!facts.has_scan) {
    bool compares = false;
    for (const ScalarNode& node : costs.nest().body)
      compares |= IsArgReduction(node.reduce);
    const SymExpr& row = facts.extents[facts.num_axes - 1];
    const bool is_short = row.is_constant() && row.constant() < kShortCpuRow;
    // A comparison with its selection takes longer than an addition.
    const int expected = is_short ? 1 : compares ? 4 : 2;
    out.push_back(CpuRows{.accumulators = expected});
    // Of equal price; a measurement may find one faster.
    for (const int other : {1, 2, 4}) {
      if (other != expected) out.push_back(CpuRows{.accumulators = other});
    }
  }
  if (facts.has_scan && costs.MayScan()) out.push_back(CpuScans{});
  if (facts.num_outer > 0 || facts.has_scan) {
    CpuColumns v;
    if (!facts.has_scan && HasShortPasses(costs.passes())) v.unroll = v.strip;
    out.push_back(v);
  }
}

std::vector<KernelVariant> Unfinished(const NestCosts& costs,
                                      const CandidateLimits& limits) {
  std::vector<KernelVariant> out;
  if (costs.target().kind == TargetKind::kCpu) {
    AddCpu(costs, out);
    return out;
  }
  const NestFacts& facts = costs.facts();
  if (facts.reduced == 0) {
    AddPoints(costs, out);
    AddCounts(costs, out);
    return out;
  }
  if (const int64_t stretch = StretchOf(costs.nest()); stretch > 0) {
    AddStretches(costs, stretch, out);
    return out;
  }
  if (!facts.has_scan) {
    AddRows(costs, limits, out);
    AddColumns(costs, limits.split, out);
    AddProducts(costs, out);
  }
  if (costs.OnlyReduction(ScalarOp::kSort) != nullptr) {
    AddSorts(costs, out);
    return out;
  }
  if (costs.OnlyReduction(ScalarOp::kTally) != nullptr) {
    AddTallies(costs, out);
    return out;
  }
  if (facts.has_scan) AddScans(costs, out);
  if (facts.has_scan || costs.reduced() <= 64) {
    out.push_back(CudaSerial{});
    out.push_back(CudaSerial{.threads = 64});
  }
  return out;
}

}  // namespace

std::vector<KernelVariant> CandidatesFor(const NestCosts& costs,
                                         const CandidateLimits& limits) {
  std::vector<KernelVariant> out = Unfinished(costs, limits);
  FinishVariants(costs, out);
  return out;
}

}  // namespace kiln

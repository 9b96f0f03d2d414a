#include "compiler/schedule/scan_candidates.h"

#include <algorithm>
#include <optional>

#include "compiler/graph/sort_limits.h"
#include "compiler/schedule/candidate_sizes.h"
#include "compiler/schedule/row_counts.h"

namespace kiln {

namespace {

// From this length on, and from this many times the places that are asked for, rows are
// worth the kernel that streams a row and keeps only its first places.
constexpr int64_t kStreamedRow = 512;
constexpr int64_t kStreamedPlaces = 8;
// The fewest keys of a stream for which a sort pays.
constexpr int64_t kLeastSorted = 128;
// The most elements of a row that a thread sorts, in registers, and the fewest for which
// a block is worth another warp.
constexpr int64_t kMostItems = 16;
constexpr int64_t kLeastItems = 4;
// The most parts of a column's scan: each part reads the results of all before it.
constexpr int64_t kMostColumnParts = 128;
// The most cells that a block counts in shared memory.
constexpr int64_t kMostCounted = 4096;
// The most neighbours of a short scan that a thread holds.
constexpr int64_t kLongestRun = 33;

// Scans of few rows, each shared by several blocks that take some tiles of it.
void AddSharedScans(const NestCosts& costs, CudaScans v, int64_t groups,
                    std::vector<KernelVariant>& out) {
  if (v.rows > 1) return;
  const int64_t multiprocessors = costs.target().multiprocessors;
  for (int64_t tiles = 1;; tiles *= 2) {
    const int64_t parts = CeilDivide(groups, tiles * v.lanes * v.unroll);
    const int64_t blocks = costs.outer() * parts;
    if (parts < 2 || blocks < multiprocessors / 2) return;
    if (parts > kMostParts || blocks > 32 * multiprocessors) continue;
    v.parts = static_cast<int>(parts);
    out.push_back(v);
  }
}

// Scans of many short rows.
void AddShortScans(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const int64_t longest = LongestRow(costs);
  for (const int lanes : {4, 8, 16, 32}) {
    const int64_t run = CeilDivide(longest, lanes) | 1;
    if (run > kLongestRun || (lanes > 4 && run < 3)) continue;
    for (const int threads : {128, 256}) {
      out.push_back(
          CudaShortScans{lanes, threads / lanes, static_cast<int>(run), 4});
    }
  }
}

// Scans down columns, with one block or several for a column.
void AddColumnScans(const NestCosts& costs, std::vector<KernelVariant>& out) {
  if (costs.facts().num_outer == 0) return;
  const int64_t multiprocessors = costs.target().multiprocessors;
  for (const int across : {32, 64}) {
    const int64_t columns = CeilDivide(costs.outer(), across);
    for (const int down : {4, 8, 16}) {
      CudaColumnScans v{across, down, 4, 1};
      out.push_back(v);
      for (const int blocks_each : {1, 2, 4, 16}) {
        const int64_t parts =
            std::min({CeilDivide(multiprocessors * blocks_each, columns),
                      costs.reduced() / (down * v.unroll), kMostColumnParts});
        if (parts <= v.parts) continue;
        v.parts = static_cast<int>(parts);
        out.push_back(v);
      }
    }
  }
}

// Sorts of whole rows, with all of a row in shared memory.
void AddWholeSorts(const NestCosts& costs, int vector,
                   std::vector<KernelVariant>& out) {
  const int64_t longest = LongestRow(costs);
  if (longest > kMostSorted) return;
  for (int threads = kWarp; threads <= kMostThreads; threads *= 2) {
    const int64_t items = CeilDivide(longest, threads);
    if (items > kMostItems) continue;
    if (items < kLeastItems && threads > kWarp) return;
    out.push_back(CudaSorts{vector, threads,
                            static_cast<int>(std::max(items, int64_t{1}))});
  }
}

// The first places of long rows.
void AddSelections(const NestCosts& costs, int64_t places, int vector,
                   std::vector<KernelVariant>& out) {
  const int64_t longest = LongestRow(costs);
  const uint32_t last = costs.facts().num_axes - 1;
  if (places > kMostPlaces || longest < kStreamedRow ||
      longest < kStreamedPlaces * places ||
      vector > std::max(1, costs.WidestVector(last))) {
    return;
  }
  for (int threads = 64; threads <= kMostThreads; threads *= 2) {
    for (const int unroll : {1, 2, 4}) {
      if (vector * unroll > 8 || (vector == 1 && unroll == 1)) continue;
      const int64_t tile = int64_t{threads} * vector * unroll;
      if (threads > 64 && tile > longest / 2) continue;
      const int64_t capacity = PowerOfTwoAtLeast(places + tile);
      // There must be room for one more tile. An early sort raises the bar for later
      // keys, so that fewer have to be sorted.
      const int64_t full =
          std::min(capacity - tile, std::max(4 * places, kLeastSorted));
      out.push_back(
          CudaSelections{vector, threads, unroll, static_cast<int>(capacity),
                         static_cast<int>(places), static_cast<int>(full)});
    }
  }
}

}  // namespace

void AddScans(const NestCosts& costs, std::vector<KernelVariant>& out) {
  if (!costs.MayScan()) return;
  AddColumnScans(costs, out);
  for (const Width& width : WidthsOn(costs, costs.facts().num_axes - 1)) {
    const int64_t groups =
        CeilDivide(costs.reduced(), width.vector) + width.peel;
    for (const int lanes : {4, 8, 16, 32, 128, 256, 512, 1024}) {
      if (lanes > std::max<int64_t>(4, PowerOfTwoAtLeast(groups))) break;
      for (const int unroll : {1, 2, 4}) {
        if (unroll > 1 && groups <= lanes * unroll / 2) break;
        // Lanes with a long row would keep the rest of their warp waiting.
        if (lanes < kWarp && groups > lanes * unroll) continue;
        const CudaScans v{width.vector, lanes,  std::max(1, 128 / lanes),
                          width.peel,   unroll, 1};
        out.push_back(v);
        if (lanes >= kWarp) AddSharedScans(costs, v, groups, out);
      }
    }
  }
  AddShortScans(costs, out);
}

void AddSorts(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const ScalarNode* sort = costs.OnlyReduction(ScalarOp::kSort);
  // A key and its position have 64 bits together.
  if (SizeInBytes(costs.nest().body[sort->args[0]].dtype) > 4) return;
  const uint32_t last = costs.facts().num_axes - 1;
  for (const int vector : {8, 4, 2, 1}) {
    if (vector > costs.extent(last) || !costs.LoadsWide(last, vector)) continue;
    if (sort->number.i > 0) AddSelections(costs, sort->number.i, vector, out);
    AddWholeSorts(costs, vector, out);
  }
}

// Tiles of few points for short rows, and of many for long ones.
void AddTallies(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const ScalarNode* tally = costs.OnlyReduction(ScalarOp::kTally);
  if (tally->number.i > kMostThreads) return;
  for (size_t s = 0; s < costs.nest().stores.size(); ++s) {
    if (costs.nest().stores[s].mode != StoreMode::kSet ||
        !costs.facts().StoreIsReduced(s))
      return;
  }
  const auto values = static_cast<int>(tally->number.i);
  for (const int threads : {32, 64, 128, 256, 512, 1024}) {
    if (threads < values) continue;
    for (const int run : {4, 8, 16})
      out.push_back(CudaTallies{threads, run, values});
  }
}

// Sums into few cells of a row, in shared memory first.
void AddCounts(const NestCosts& costs, std::vector<KernelVariant>& out) {
  const std::optional<RowCounts> counts =
      RowCountsOf(costs.nest(), costs.facts());
  if (!counts.has_value() || counts->cells > kMostCounted) return;
  const uint32_t last = costs.facts().num_outer - 1;
  for (const int vector : {8, 4, 2, 1}) {
    if (vector > costs.extent(last) || !costs.LoadsWide(last, vector)) continue;
    for (const int steps : {1, 4, 16}) {
      out.push_back(CudaCounts{vector, 256, vector > 2 ? 1 : 4, steps,
                               static_cast<int>(counts->cells)});
    }
  }
}

}  // namespace kiln

// The part of Fuser that fuses sums over rows with kernels that go over the same rows.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/schedule/column_sums.h"
#include "compiler/schedule/fuser.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "compiler/schedule/reduce_ops.h"

namespace kiln {

namespace {

// The numbers of blocks per multiprocessor that are tried. They determine the stretch.
constexpr int64_t kBlocksEach[] = {2, 3, 4};

}  // namespace

void Fuser::AddPartials(const std::vector<Buffer>& partials) {
  for (const Buffer& buffer : partials) {
    program_.buffers.push_back(buffer);
    private_.push_back(true);
    users_.emplace_back();
  }
}

void Fuser::DropPartials(size_t count) {
  for (size_t k = 0; k < count; ++k) {
    program_.buffers.pop_back();
    pricer_.DropBuffer();
    private_.pop_back();
    users_.pop_back();
  }
}

std::optional<Fuser::RowsWithSums> Fuser::JoinColumnSums(
    uint32_t rows, uint32_t columns, int64_t stretch, FusionVerdict& verdict) {
  const FusionUnit& first = groups_[rows].unit;
  std::optional<ColumnSums> apart = TakeColumnSumsApart(
      groups_[columns].unit.nest, stretch,
      static_cast<BufferId>(program_.buffers.size()), program_.shapes);
  if (!apart.has_value()) {
    verdict.because = ApartBecause::kIterationDiffers;
    return std::nullopt;
  }
  AddPartials(apart->partials);
  const FusionUnit adds =
      MakeFusionUnit(std::move(apart->adds), groups_[columns].unit.nests,
                     program_.buffers, program_.shapes);
  verdict = JudgeFusion(first, adds, program_.buffers, program_.shapes,
                        options_.limits);
  std::optional<RowsWithSums> out;
  if (verdict.fuse()) {
    out.emplace();
    out->merged = MergeNests(first, adds, verdict.alignment, program_.shapes);
    SetStretches(out->merged);
    out->ns = pricer_.PriceOf(out->merged) + pricer_.PriceOf(apart->finishes);
    out->finishes = std::move(apart->finishes);
    out->partials = apart->partials;
  }
  DropPartials(apart->partials.size());
  return out;
}

void Fuser::TakeRowsWithSums(uint32_t rows, uint32_t columns,
                             RowsWithSums joined) {
  const int nests = groups_[rows].unit.nests + groups_[columns].unit.nests;
  AddPartials(joined.partials);
  Leave(rows);
  Leave(columns);
  groups_[columns].unit = MakeFusionUnit(std::move(joined.finishes), 1,
                                         program_.buffers, program_.shapes);
  Enter(columns);
  DropUnread(joined.merged);
  groups_[rows].unit = MakeFusionUnit(std::move(joined.merged), nests,
                                      program_.buffers, program_.shapes);
  Enter(rows);
  dependencies_.Precede(rows, columns);
  for (const uint32_t g : {rows, columns}) {
    ++groups_[g].version;
    groups_[g].price_ns = -1;
  }
  ++report_.merges;
}

bool Fuser::TryColumnSums(uint32_t rows, uint32_t columns) {
  FusionVerdict verdict;
  std::optional<RowsWithSums> best;
  if (dependencies_.Before(columns, rows) ||
      dependencies_.SomethingBetween(rows, columns)) {
    verdict.because = ApartBecause::kCycle;
  } else {
    // Of pairs that differ only in their buffers the same stretch is best.
    KernelFingerprint pair(groups_[rows].unit.nest, program_.buffers,
                           FingerprintSizes::kSizesOnly);
    pair.AddNest(groups_[columns].unit.nest);
    // The fingerprint does not say whether two random streams are the same.
    int64_t unknown = 0;
    int64_t& best_stretch =
        pair.streams().size() > 1 ? unknown : stretches_[pair.bytes()];
    int64_t known = StretchOf(groups_[rows].unit.nest);
    if (known == 0) known = best_stretch;
    for (const int64_t blocks : kBlocksEach) {
      const int64_t all = blocks * target_.multiprocessors;
      const int64_t stretch =
          known > 0 ? known
                    : std::clamp<int64_t>(
                          (groups_[rows].unit.outer_points + all - 1) / all, 1,
                          kMostFloatsAdded);
      std::optional<RowsWithSums> joined =
          JoinColumnSums(rows, columns, stretch, verdict);
      if (joined.has_value() && (!best.has_value() || joined->ns < best->ns)) {
        best = std::move(joined);
        best_stretch = stretch;
      }
      if (known > 0 || !verdict.fuse()) break;
    }
  }
  if (best.has_value()) {
    if (Saves(best->ns, groups_[rows], groups_[columns], verdict) &&
        !HoldsTooMuch(rows, columns, verdict)) {
      TakeRowsWithSums(rows, columns, *std::move(best));
      return true;
    }
  }
  NoteApart(groups_[rows].unit, groups_[columns].unit, verdict);
  return false;
}

void Fuser::FuseColumnSums() {
  if (target_.kind != TargetKind::kCuda || !options_.kernels.split) return;
  struct Pair {
    int64_t score;
    uint32_t rows, columns;
  };
  std::vector<Pair> pairs;
  for (uint32_t columns = 0; columns < groups_.size(); ++columns) {
    const FusionUnit& unit = groups_[columns].unit;
    if (!groups_[columns].fusable || !unit.reduces || unit.scans) continue;
    for (const uint32_t rows : NeighboursOf(columns, /*forward=*/false)) {
      const FusionUnit& other = groups_[rows].unit;
      if (!groups_[rows].fusable || rows == columns || !other.reduces ||
          other.outer_points != unit.reduced_points ||
          other.reduced_points != unit.outer_points) {
        continue;
      }
      const int64_t score = Score(groups_[rows], groups_[columns]);
      if (score > 0) pairs.push_back({score, rows, columns});
    }
  }
  std::stable_sort(
      pairs.begin(), pairs.end(),
      [](const Pair& a, const Pair& b) { return a.score > b.score; });
  // Once its sums are computed elsewhere, a group reduces over stretches, not over rows.
  std::vector<bool> moved(groups_.size(), false);
  for (const Pair& pair : pairs) {
    if (moved[pair.columns] || moved[pair.rows]) continue;
    moved[pair.columns] = TryColumnSums(pair.rows, pair.columns);
  }
}

}  // namespace kiln

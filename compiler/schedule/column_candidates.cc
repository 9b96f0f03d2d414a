#include "compiler/schedule/column_candidates.h"

#include <algorithm>

#include "compiler/schedule/candidate_sizes.h"

namespace kiln {

namespace {

// Reduced points that one thread goes through, and groups of columns of its block.
constexpr int64_t kMostStepsAlone = 16;
constexpr int kColumnsAlone = 128;

// `v` with the loads of one step or of several together, and its columns, which have
// `blocks` blocks, shared by some blocks or by none.
void AddWithParts(const NestCosts& costs, bool split, CudaColumns v,
                  int64_t blocks, std::vector<KernelVariant>& out) {
  const int64_t steps = CeilDivide(costs.reduced(), v.down);
  v.unroll = steps >= 4 ? 4 : 1;
  int before = 1;
  if (split && costs.MaySplit()) {
    for (const int blocks_each : {1, 3}) {
      v.parts = PartsFor(costs, blocks, costs.reduced(),
                         int64_t{v.down} * v.unroll, blocks_each);
      if (v.parts > before) out.push_back(v);
      before = std::max(before, v.parts);
    }
  }
  // Alone where that fills the chip, or little is left to share.
  if (before > 1 && blocks < costs.target().multiprocessors && steps >= 16)
    return;
  v.parts = 1;
  out.push_back(v);
  if (v.unroll > 1 && steps < 16) {
    v.unroll = 1;
    out.push_back(v);
  }
}

// Whether groups of `vector` columns, peeled, begin at the same columns in every
// `vector`-th of the reduced points, but not in all of them.
bool RowsAlignInTurn(const NestCosts& costs, int vector) {
  const NestFacts& facts = costs.facts();
  if (facts.num_axes != facts.num_outer + 1) return false;
  const uint32_t reduced = facts.num_outer;
  const SymExpr rest =
      MakeVectors(costs.nest(), facts, costs.buffers(), costs.shapes(),
                  facts.num_outer - 1, vector, true)
          .rest;
  const SymExpr later = rest.Substitute([&](Var var) {
    const SymExpr at = SymExpr::Of(var);
    return var == Var{Var::Kind::kAxis, reduced} ? at + int64_t{vector} : at;
  });
  return !IsMultiple(rest, vector) && DiffersByMultiple(later, rest, vector);
}

// Columns of rows that are no multiple of `widest`, or of half of it.
void AddPeeled(const NestCosts& costs, bool split, int widest,
               std::vector<KernelVariant>& out) {
  const int64_t row = costs.extent(costs.facts().num_outer - 1);
  if (!costs.MaySplit()) return;
  for (const int vector : {widest, widest / 2}) {
    if (vector < 2 || row < 2 * vector || costs.reduced() < vector ||
        !RowsAlignInTurn(costs, vector)) {
      continue;
    }
    for (const int across : {8, 16, 32, 64}) {
      const int64_t columns = int64_t{across} * vector;
      if (across > 8 && columns / 2 >= row) break;
      for (const int threads : {128, 256, 512}) {
        const int down = threads / across;
        if (down < vector || down > PowerOfTwoAtLeast(costs.reduced()))
          continue;
        AddWithParts(costs, split, {vector, across, down, 1, 1, 1},
                     costs.outer() / row * CeilDivide(row, columns), out);
      }
    }
  }
}

}  // namespace

void AddColumns(const NestCosts& costs, bool split,
                std::vector<KernelVariant>& out) {
  const uint32_t outer = costs.facts().num_outer;
  if (outer == 0) return;
  const int widest = costs.WidestVector(outer - 1);
  int plain = widest;
  while (plain > 1 && (plain > costs.extent(outer - 1) ||
                       !costs.AllWide(outer - 1, plain))) {
    plain /= 2;
  }
  for (const int vector : {plain, plain / 2}) {
    if (vector < 1) break;
    const int64_t groups = CeilDivide(costs.outer(), vector);
    for (const int across : {8, 16, 32}) {
      if (across > 8 && across / 2 >= groups) break;
      for (const int threads : {128, 256, 512}) {
        const int down = static_cast<int>(std::min<int64_t>(
            threads / across, PowerOfTwoAtLeast(costs.reduced())));
        if (down * across < threads / 2) continue;
        AddWithParts(costs, split, {vector, across, down, 1, 1},
                     CeilDivide(groups, across), out);
      }
    }
  }
  // A short sum may be one thread's.
  if (costs.reduced() <= kMostStepsAlone) {
    for (int vector = plain; vector > 1; vector /= 2)
      out.push_back(CudaColumns{vector, kColumnsAlone, 1, 1, 1});
  }
  if (plain < widest) AddPeeled(costs, split, widest, out);
}

}  // namespace kiln

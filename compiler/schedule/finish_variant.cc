#include "compiler/schedule/finish_variant.h"

#include <algorithm>
#include <optional>

#include "compiler/schedule/held_rows.h"
#include "compiler/schedule/matrix_product.h"

namespace kiln {
namespace {

// Shared memory for the sums of a block's rows, where none is staged: with as much
// a multiprocessor still holds as many blocks as registers let it.
constexpr int64_t kSharedForSums = 16384;

// The passes of the kernels that stage their rows, which all hold what they may: planned
// once for all variants of a nest.
class StagedPasses {
 public:
  explicit StagedPasses(const NestCosts& costs) : costs_(costs) {}

  const KernelPasses& Of(const CudaRows& v) {
    std::optional<KernelPasses>& known = known_[v.hold_costly != 0];
    if (!known.has_value()) known = RowPasses(v, costs_.nest(), costs_.facts());
    return *known;
  }

 private:
  const NestCosts& costs_;
  std::optional<KernelPasses>
      known_[2];  // without costly values, and with them
};

// As many groups as the staged rows leave room for, which are done with by then.
int JoinedGroups(const NestCosts& costs, StagedPasses& passes,
                 const CudaRows& v) {
  if (v.stretch == 0 || v.rows == 1) return 0;
  int64_t staged = 0;
  if (v.stages > 0) {
    const NestFacts& facts = costs.facts();
    const Vectors vectors =
        MakeVectors(costs.nest(), facts, costs.buffers(), costs.shapes(),
                    facts.num_axes - 1, v.vector, v.peel != 0);
    staged = StagedRowsOf(v, costs.nest(), facts, vectors, passes.Of(v)).bytes;
  }
  const int64_t each = SumBytesOfGroup(v, costs.nest(), costs.buffers());
  return static_cast<int>(
      std::clamp<int64_t>(std::max(staged, kSharedForSums) / each, 1, v.held));
}

// Without `peel` groups are whole.
template <typename Variant>
void Finish(const NestCosts&, StagedPasses&, Variant& v) {
  if constexpr (requires {
                  v.whole;
                  v.peel;
                })
    v.whole = v.peel != 0 ? kMostWritten : 0;
}

void Finish(const NestCosts& costs, StagedPasses& passes, CudaRows& v) {
  v.whole = v.peel != 0 ? kMostWritten : 0;
  v.floats = v.held == 0 ? kMostFloatsAdded : 0;
  v.once = v.stages > 0;
  v.branch = v.stretch > 0;
  v.joined = JoinedGroups(costs, passes, v);
}

void Finish(const NestCosts&, StagedPasses&, CudaProducts& v) {
  v.whole = kMostWritten;
}

}  // namespace

void FinishVariants(const NestCosts& costs,
                    std::vector<KernelVariant>& variants) {
  StagedPasses passes(costs);
  for (KernelVariant& variant : variants)
    std::visit([&](auto& v) { Finish(costs, passes, v); }, variant);
}

}  // namespace kiln

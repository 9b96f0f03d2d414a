#ifndef KILN_COMPILER_SCHEDULE_FUSER_H_
#define KILN_COMPILER_SCHEDULE_FUSER_H_

// The state of fuse_loops.h while it runs.

#include <cstdint>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/fuse_loops.h"
#include "compiler/schedule/fusion_rules.h"
#include "compiler/schedule/nest_price.h"

namespace kiln {

// How many of a buffer's other users a group is paired with: the nearest on
// each side. Bounded, because a buffer that all layers read would pair every kernel with
// every other one.
inline constexpr size_t kNeighbours = 12;

// Nests that have become one kernel.
struct FusionGroup {
  FusionUnit unit;
  double price_ns = -1;  // of its nest; below 0: not asked yet
  bool fusable = false;
  int version = 0;
};

// A pair that may be merged. Pairs with a larger score are tried first; of those with
// equal scores the closest, then the earliest.
struct FusionCandidate {
  int64_t score;
  uint32_t a, b;
  int version_a, version_b;

  friend bool operator<(const FusionCandidate& x, const FusionCandidate& y) {
    const auto key = [](const FusionCandidate& c) {
      return std::tuple(c.score, -static_cast<int64_t>(c.b - c.a),
                        -static_cast<int64_t>(c.a));
    };
    return key(x) < key(y);
  }
};

class Fuser {
 public:
  Fuser(LoopProgram& program, const Target& target,
        const FusionOptions& options)
      : program_(program),
        target_(target),
        options_(options),
        pricer_(program, target),
        dependencies_(program.steps, program.buffers.size()),
        users_(program.buffers.size()),
        private_(program.buffers.size()) {}

  FusionReport Run();

 private:
  void MakeGroups();
  // Queues `g` with its neighbours; only those after it when `forward`.
  void QueuePairs(uint32_t g, bool forward);
  // Groups that touch a buffer of `g`'s: of each buffer the nearest few before and
  // after it. Sorted; only those after it when `forward`.
  std::vector<uint32_t> NeighboursOf(uint32_t g, bool forward) const;
  int64_t Score(const FusionGroup& a, const FusionGroup& b) const;
  bool TryMerge(uint32_t a, uint32_t b);
  // Whether a price is below that of both kernels by kLeastSavedNs; else says why
  // in `verdict`.
  bool Saves(double together_ns, FusionGroup& first, FusionGroup& second,
             FusionVerdict& verdict);
  double PriceOf(FusionGroup& group);

  // --- Memory (fuse_held_bytes.cc).
  void MeasureTemporaries();
  int64_t TemporaryBytes(BufferId b) const;
  void AddTemporariesOf(uint32_t g, std::vector<BufferId>& buffers) const;
  // Of a buffer with users: where in the program the first and the last of them come.
  std::pair<uint32_t, uint32_t> LifeOf(BufferId b) const;
  // Bytes of temporaries that are there at once only if both groups are one kernel.
  int64_t HeldBytes(uint32_t a, uint32_t b) const;
  // Whether these are many, and more than the merge saves; then says so in
  // `verdict`.
  bool HoldsTooMuch(uint32_t a, uint32_t b, FusionVerdict& verdict) const;

  void TakeMerged(uint32_t a, uint32_t b, LoopNest merged, int nests);
  // Keeps users_ true while a group's nest is replaced.
  void Leave(uint32_t g);
  void Enter(uint32_t g);
  void DropUnread(LoopNest& nest) const;
  void NoteApart(const FusionUnit& first, const FusionUnit& second,
                 const FusionVerdict& verdict);
  void FuseSharers();

  // --- Column sums beside a kernel of rows (column_sums.h).
  void FuseColumnSums();
  bool TryColumnSums(uint32_t rows, uint32_t columns);
  struct RowsWithSums {
    LoopNest merged;
    LoopNest finishes;
    std::vector<Buffer> partials;  // the program's next ones
    double ns = 0;                 // of both nests
  };
  std::optional<RowsWithSums> GiveSums(uint32_t rows, uint32_t columns,
                                       int64_t stretch, FusionVerdict& verdict);
  void TakeRowsWithSums(uint32_t rows, uint32_t columns, RowsWithSums given);
  void AddPartials(const std::vector<Buffer>& partials);
  void DropPartials(size_t count);

  std::vector<uint32_t> ManyAlike() const;
  void FuseSmall();
  void WriteBack();

  LoopProgram& program_;
  const Target& target_;
  const FusionOptions& options_;
  NestPricer pricer_;
  Dependencies dependencies_;
  std::vector<FusionGroup> groups_;
  // Groups that touch a buffer, in order; merged ones leave it.
  std::vector<std::vector<uint32_t>> users_;
  std::vector<bool> private_;  // temporaries that only nests touch
  // Of each temporary; nothing where all together are small.
  std::vector<int64_t> temporary_bytes_;
  std::priority_queue<FusionCandidate> queue_;
  FusionReport report_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSER_H_

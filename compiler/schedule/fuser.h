#ifndef KILN_COMPILER_SCHEDULE_FUSER_H_
#define KILN_COMPILER_SCHEDULE_FUSER_H_

// The search for nests to fuse, which FuseLoops runs (fuse_loops.h says what it decides).

#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/fuse_loops.h"
#include "compiler/schedule/fusion_rules.h"
#include "compiler/schedule/nest_price.h"

namespace kiln {

// A group is paired with at most this many users of each of its buffers before it, and
// as many after it: the nearest ones. Without a bound, a buffer that all layers read
// would pair every kernel with every other one.
inline constexpr size_t kNeighbours = 12;

// Nests that have become one kernel. At first each nest is a group of its own.
struct FusionGroup {
  FusionUnit unit;
  double price_ns = -1;  // of its nest; negative: not computed yet
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
        pricer_(program, target, options.kernels),
        dependencies_(program.steps, program.buffers.size()),
        users_(program.buffers.size()),
        private_(program.buffers.size()) {}

  FusionReport Run();

 private:
  void MakeGroups();
  // Queues `g` with its neighbours; only those after it when `forward`.
  void QueuePairs(uint32_t g, bool forward);
  // The groups that touch a buffer of `g`, sorted: for each buffer the nearest
  // kNeighbours before `g` and after it. With `forward` only those after it.
  std::vector<uint32_t> NeighboursOf(uint32_t g, bool forward) const;
  int64_t Score(const FusionGroup& a, const FusionGroup& b) const;
  bool TryMerge(uint32_t a, uint32_t b);
  // Whether one kernel of this price saves kLeastSavedNs over the two. If not, sets the
  // reason in `verdict`.
  bool Saves(double together_ns, FusionGroup& first, FusionGroup& second,
             FusionVerdict& verdict);
  double PriceOf(FusionGroup& group);

  // --- Memory (fuse_held_bytes.cc).
  void MeasureTemporaries();
  int64_t TemporaryBytes(BufferId b) const;
  void AddTemporariesOf(uint32_t g, std::vector<BufferId>& buffers) const;
  // The positions of the first and the last user of a buffer, which must have users.
  std::pair<uint32_t, uint32_t> LifeOf(BufferId b) const;
  // The bytes of temporaries that are live at once only if the groups are merged.
  int64_t HeldBytes(uint32_t a, uint32_t b) const;
  // Whether that is much, compared with what the merge saves. If so, sets the reason in
  // `verdict`.
  bool HoldsTooMuch(uint32_t a, uint32_t b, FusionVerdict& verdict) const;

  void TakeMerged(uint32_t a, uint32_t b, LoopNest merged, int nests);
  // Removes a group from users_, and adds it. To be called before and after the group's
  // nest is replaced.
  void Leave(uint32_t g);
  void Enter(uint32_t g);
  void DropUnread(LoopNest& nest) const;
  void NoteApart(const FusionUnit& first, const FusionUnit& second,
                 const FusionVerdict& verdict);
  void FuseSharers();

  // --- Column sums in a kernel that goes over rows (column_sums.h).
  void FuseColumnSums();
  bool TryColumnSums(uint32_t rows, uint32_t columns);
  struct RowsWithSums {
    LoopNest merged;
    LoopNest finishes;
    std::vector<Buffer> partials;  // not in the program yet
    double ns = 0;                 // price of both nests
  };
  // Adds the sums of group `columns` to the kernel of group `rows`. None if that is
  // impossible; then sets the reason in `verdict`.
  std::optional<RowsWithSums> JoinColumnSums(uint32_t rows, uint32_t columns,
                                             int64_t stretch,
                                             FusionVerdict& verdict);
  void TakeRowsWithSums(uint32_t rows, uint32_t columns, RowsWithSums joined);
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
  // For each buffer the groups that touch it, in order.
  std::vector<std::vector<uint32_t>> users_;
  // For each buffer whether it is a temporary that only nests touch.
  std::vector<bool> private_;
  // For each buffer its bytes if it is a temporary. Empty if all of them are small.
  std::vector<int64_t> temporary_bytes_;
  std::priority_queue<FusionCandidate> queue_;
  // By the fingerprint of a kernel over rows and of one that sums columns: the best
  // stretch; 0 if it is not known.
  absl::flat_hash_map<std::string, int64_t> stretches_;
  FusionReport report_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FUSER_H_

#ifndef KILN_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_
#define KILN_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_

// Writes the accumulators of a CUDA kernel's reductions (a<n>: a value or a tuple of
// each thread) and the joins of those of several threads and blocks. The order of
// all additions is fixed by the variant and the sizes.
//
// A float that is added to a much larger sum is lost in rounding: counting by ones,
// a float32 stops at 2^24. So a thread that adds many floats adds them in blocks, and
// adds the blocks' sums as doubles.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

class CudaAccumulators {
 public:
  // How a mapping's threads add.
  enum class Kind : uint8_t {
    kShared,  // many threads share an outer point
    kAlone,   // one thread has it alone: float sums and products are doubles
  };
  // `body` must outlive this.
  CudaAccumulators(CudaBody& body, Kind kind)
      : body_(body),
        nest_(body.nest),
        out_(body.out),
        kind_(kind),
        names_(nest_.body.size()),
        totals_(nest_.body.size()),
        groups_(nest_.body.size()) {}

  // Declares the accumulators with their initial values, as arrays of `count`;
  // 0: as single variables.
  absl::Status Declare(const std::vector<ScalarId>& ids, int count);
  // Takes one more value. `at` is "" or "[e]".
  absl::Status Step(ScalarId id, const std::string& at);
  // The same of all neighbours of a group, which go into one accumulator: for
  // reductions that combine a group at once (InGroups), before its loop, at each
  // neighbour and behind the loop.
  bool InGroups(ScalarId id) const;
  void BeginGroup(ScalarId id);
  void GroupStep(ScalarId id);
  void EndGroup(ScalarId id);
  // To be called after all values of a pass and before any join. Names may change.
  void EndPass(const std::vector<ScalarId>& ids, int count);
  // How the result is read from here on.
  void Name(ScalarId id, const std::string& at);
  // A running value, of a scan, at this point.
  void NameRunning(ScalarId id);
  const std::string& name(ScalarId id) const { return names_[id]; }

  // --- A loop over many points: "for (T r = first; r < limit; r += step)".

  // Opens it. If `reduces` has a float sum and a thread may take more than
  // `most_steps` steps, the loop runs in blocks of that many steps. Where no
  // thread takes a second step there is no loop.
  struct Steps {
    std::string first, limit;  // as text
    SymExpr points;            // between them, at most
    int64_t step = 1;
    int64_t most_steps = 1;
    bool all_below = false;  // one step, all of whose points are below `limit`
  };
  void OpenLoop(const std::vector<ScalarId>& reduces, const Steps& steps,
                int count);
  void CloseLoop(int count);

  // --- Joins.

  // Joins the neighbouring threads of a row, and the blocks of its cluster.
  struct RowThreads {
    int lanes;    // of a row
    int threads;  // of a block
    int cluster;  // blocks
  };
  absl::Status JoinAcross(const std::vector<ScalarId>& ids,
                          const RowThreads& row);
  // Joins `down` threads of each of `across` columns, through the kernel's shared
  // array `parts`.
  absl::Status JoinDown(const std::vector<ScalarId>& ids, int across, int down);
  // Of `side` threads side by side, whose accumulators stand `shift`, a variable,
  // places before their own columns: moves them there, through `parts`. The last
  // thread has no columns then.
  void Realign(const std::vector<ScalarId>& ids, int side);
  // Declares `parts`, for JoinDown and Realign of any reduction of the nest.
  void DeclareParts(int across, int down);

  // Puts a part's accumulators into the workspace `w` at `point`, an expression
  // of the outer point, when `condition` holds.
  void StorePartials(const std::vector<ScalarId>& ids, const SymExpr& points,
                     int parts, const std::string& point, int count,
                     const std::string& condition);
  // Which parts' accumulators a thread reads: every `stride`-th from `first` on, at
  // `point`, an expression of the outer point and, of several side by side, of `e`.
  struct PartsRead {
    const SymExpr& points;
    int parts;
    std::string point;
    int count;
    std::string first;
    int stride;

    int turns() const { return (parts + stride - 1) / stride; }
    std::string loop() const {
      return absl::StrCat("for (int q = ", first, "; q < ", parts,
                          "; q += ", stride, ")");
    }
  };
  // Adds them to fresh ones, when `condition` holds.
  absl::Status LoadPartials(const std::vector<ScalarId>& ids,
                            const PartsRead& read,
                            const std::string& condition);

 private:
  bool IsFloatSum(ScalarId id) const;
  bool IsMoments(ScalarId id) const;
  bool IsLongJoin(ScalarId id) const;
  // Added up as a double all along.
  bool IsDouble(ScalarId id) const;
  std::string TypeOf(ScalarId id) const;
  std::string StartOf(ScalarId id) const;
  // A function object that joins two accumulators.
  absl::StatusOr<std::string> Joiner(ScalarId id) const;
  bool CountsPoints(const ScalarNode& node) const;
  std::string IndexTypeOf(const ScalarNode& node) const;
  // A part's accumulator in the workspace.
  std::string PartialCell(ScalarId id, const SymExpr& points, int parts,
                          const std::string& part,
                          const std::string& point) const;
  absl::Status LoadShortParts(const std::vector<ScalarId>& ids,
                              const PartsRead& read);
  absl::Status LoadLongParts(ScalarId id, const PartsRead& read);
  void EachThatExists(int count, const std::string& statement);
  // A statement for all that stand side by side, `$` where their number goes.
  void Each(int count, const std::string& statement);

  CudaBody& body_;
  const LoopNest& nest_;
  CWriter& out_;
  const Kind kind_;
  std::vector<std::string> names_;
  std::vector<std::string> totals_;
  std::vector<std::string> groups_;
  std::vector<ScalarId> blocks_;  // sums of the open loop that go in blocks
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_

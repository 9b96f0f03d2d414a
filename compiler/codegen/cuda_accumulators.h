#ifndef KILN_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_
#define KILN_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_

// Writes the accumulators of a CUDA kernel's reductions (a<n>, a value or a tuple of each
// thread), and combines those of several threads and blocks. The variant and the sizes
// determine the order of all additions.
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
  // How outer points are distributed to threads.
  enum class Kind : uint8_t {
    kShared,  // many threads share an outer point
    kAlone,   // each has one thread: float sums and products are doubles
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
  // Adds one more value. `at` is "" or "[e]".
  absl::Status Step(ScalarId id, const std::string& at);
  // Add the values of all neighbours of a group to one accumulator, for reductions that
  // combine a group at once (InGroups): before the loop over neighbours, at each
  // neighbour, and after the loop.
  bool InGroups(ScalarId id) const;
  void BeginGroup(ScalarId id);
  void GroupStep(ScalarId id);
  void EndGroup(ScalarId id);
  // To be called after all values of a pass, before results of threads are combined.
  // Names may change.
  void EndPass(const std::vector<ScalarId>& ids, int count);
  // Makes later text read the result of a reduction.
  void Name(ScalarId id, const std::string& at);
  // Makes later text read the running value of a scan at this point.
  void NameRunning(ScalarId id);
  const std::string& name(ScalarId id) const { return names_[id]; }

  // --- A loop over many points: "for (T r = first; r < limit; r += step)".

  // Opens the loop. If `reduces` has a float sum and a thread may take more than
  // `most_steps` steps, the loop runs in blocks of that many steps. If no thread takes a
  // second step, no loop is written.
  struct Steps {
    std::string first, limit;  // as text
    SymExpr points;            // the most points between them
    int64_t step = 1;
    int64_t most_steps = 1;
    bool all_below = false;  // one step, all of whose points are below `limit`
  };
  void OpenLoop(const std::vector<ScalarId>& reduces, const Steps& steps,
                int count);
  void CloseLoop(int count);

  // --- Combining results of threads and blocks.

  // Combines the results of the neighbouring threads of a row, and of its cluster's
  // blocks.
  struct RowThreads {
    int lanes;    // of a row
    int threads;  // of a block
    int cluster;  // blocks
  };
  absl::Status JoinAcross(const std::vector<ScalarId>& ids,
                          const RowThreads& row);
  // Combines the results of `down` threads for each of `across` columns, through the
  // kernel's shared array `parts`.
  absl::Status JoinDown(const std::vector<ScalarId>& ids, int across, int down);
  // For `side` neighbouring threads, whose accumulators are for columns `shift` (a
  // variable) places before their own: moves the accumulators to the threads of their
  // columns, through `parts`. The last thread has no columns then.
  void Realign(const std::vector<ScalarId>& ids, int side);
  // Declares `parts`, for JoinDown and Realign of any reduction of the nest.
  void DeclareParts(int across, int down);

  // If `condition` holds, stores a part's accumulators in the workspace `w` at `point`,
  // an expression for the outer point.
  void StorePartials(const std::vector<ScalarId>& ids, const SymExpr& points,
                     int parts, const std::string& point, int count,
                     const std::string& condition);
  // The parts whose accumulators a thread reads: every `stride`-th from `first` on, at
  // `point`, an expression for the outer point, with `e` if there are several side by
  // side.
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
  // If `condition` holds, adds these accumulators to new ones.
  absl::Status LoadPartials(const std::vector<ScalarId>& ids,
                            const PartsRead& read,
                            const std::string& condition);

 private:
  bool IsFloatSum(ScalarId id) const;
  bool IsMoments(ScalarId id) const;
  bool IsLongJoin(ScalarId id) const;
  // Whether the accumulator is a double throughout.
  bool IsDouble(ScalarId id) const;
  std::string TypeOf(ScalarId id) const;
  std::string StartOf(ScalarId id) const;
  // A function object that combines two accumulators.
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
  // Writes a statement for each of several accumulators side by side; `$` is replaced by
  // the number.
  void Each(int count, const std::string& statement);

  CudaBody& body_;
  const LoopNest& nest_;
  CWriter& out_;
  const Kind kind_;
  std::vector<std::string> names_;
  std::vector<std::string> totals_;
  std::vector<std::string> groups_;
  std::vector<ScalarId>
      blocks_;  // sums of the open loop that are computed in blocks
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_ACCUMULATORS_H_

#ifndef KILN_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_
#define KILN_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_

// Writes the accumulators of a CPU kernel's reductions and scans. a<n> is the result so
// far, j<n> the place of that value for argmax and argmin, and b<n> the sum of the
// current block in a pass that sums in blocks.
//
// A float that is added to a much larger sum is lost in rounding: counting by ones, a
// float32 stops at 2^24. So a float sum over many points is computed in blocks of some
// hundred additions, whose sums are added as doubles. A running sum or product is always
// a double.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/cpu_body.h"

namespace kiln {

class CpuAccumulators {
 public:
  // `body` must outlive this. With `by_rows` all accumulators are vectors of lanes,
  // otherwise only those whose value changes along the vector axis.
  CpuAccumulators(CpuBody& body, bool by_rows)
      : body_(body),
        nest_(body.nest),
        out_(body.out),
        by_rows_(by_rows),
        state_(body.nest.body.size()) {}

  bool IsFloatSum(ScalarId id) const {
    const ScalarNode& node = nest_.body[id];
    return node.reduce == ReduceOp::kSum && IsFloat(node.dtype);
  }

  // Declares `side_by_side` accumulators (an array if more than one) with the neutral
  // element. With `blocks` a float sum is computed in blocks.
  void Declare(ScalarId id, int side_by_side, bool blocks);

  // Adds one more value in each lane. `at` is "" or an index of the array, "[u]". RowStep
  // does not change lanes from `m` on. Errors: UNSUPPORTED_OP names a reduction that its
  // type does not support.
  absl::Status RowStep(ScalarId id, const std::string& at);
  absl::Status ColumnStep(ScalarId id, bool lanes);

  // Adds the block's sum to the total, and begins the next block.
  void EndBlock(ScalarId id);

  // These end a pass; later text reads the result. AcrossLanes combines the lanes into
  // one value, in a fixed tree. Columns keeps one value for each column.
  absl::Status AcrossLanes(ScalarId id);
  void Columns(ScalarId id);
  // Makes later text read the running value at this point.
  void Running(ScalarId id, bool lanes);

 private:
  struct State {
    std::string number;  // n of its names
    int side_by_side = 1;
    DType dtype = DType::kFloat32;  // of a<n>
    bool blocks = false;
    // The type of the places in j<n> if values come in the order of their places; then
    // j<n> has the place of the first lane. kBool: they may come in any order.
    DType place = DType::kBool;
  };

  bool IsLanes(ScalarId id) const { return by_rows_ || body_.IsLanes(id); }
  void DeclareOne(const std::string& name, int count, DType dtype,
                  const std::string& start, bool lanes);
  // The next value of a<n> or b<n> when `lanes` are combined into it.
  absl::StatusOr<std::string> Next(ScalarId id, const std::string& a,
                                   bool lanes) const;
  absl::StatusOr<std::string> TupleStep(ScalarId id, const std::string& at,
                                        bool lanes,
                                        const std::string& count) const;
  // The type of places when values come in the order of their places.
  DType PlaceType(ScalarId id) const;
  SymExpr Position(const ScalarNode& node) const;
  absl::Status TupleAcrossLanes(ScalarId id);
  std::string PositionText(const ScalarNode& node, bool lanes) const;
  void Name(ScalarId id, const std::string& first, const std::string& second,
            bool lanes);

  CpuBody& body_;
  const LoopNest& nest_;
  CWriter& out_;
  const bool by_rows_;
  std::vector<State> state_;  // by node
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_

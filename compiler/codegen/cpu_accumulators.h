#ifndef KILN_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_
#define KILN_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_

// Writes what the reductions and scans of a CPU kernel keep while they run:
// a<n>, what there is so far, with j<n>, where it stands, for the largest and
// the smallest; in a pass that sums in blocks also b<n>, the block's sum.
//
// A float that is added to a sum far larger than itself is lost in its
// rounding: 2^24 ones are as far as a float32 counts. A float sum over many
// points therefore goes in blocks of some hundred additions, whose sums are
// added as doubles; a running sum or product is a double all along.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/cpu_body.h"

namespace kiln {

inline bool IsTuple(ReduceOp op) {
  return op == ReduceOp::kArgMax || op == ReduceOp::kArgMin;
}

class CpuAccumulators {
 public:
  // `body` must outlive this. By rows all are lanes; else those are whose value
  // moves with the vector axis.
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

  // Declares them with the identity, as an array when more than one stand side
  // by side; `blocks`: a float sum goes in blocks.
  void Declare(ScalarId id, int side_by_side, bool blocks);

  // One more value of each lane. `at` is "" or the place side by side: "[u]".
  // By rows the lanes from `m` on keep what they have. Errors: UNSUPPORTED_OP
  // names a reduction that its type has not.
  absl::Status RowStep(ScalarId id, const std::string& at);
  absl::Status ColumnStep(ScalarId id, bool lanes);

  // The block's sum into that of all; the next block begins.
  void EndBlock(ScalarId id);

  // The end of a pass: how the result is read from here on. Across lanes to
  // one value in a fixed tree, or each column's own.
  absl::Status AcrossLanes(ScalarId id);
  void Columns(ScalarId id);
  // The running value at this point.
  void Running(ScalarId id, bool lanes);

 private:
  struct State {
    std::string number;  // n of its names
    int side_by_side = 1;
    DType dtype = DType::kFloat32;  // of a<n>
    bool blocks = false;
    // Of j<n>, the place of the first lane: values come in the order of their
    // places. kBool: they need not.
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
  // The type in which places are kept when values come in their order.
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
  std::vector<State> state_;  // one a node
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_ACCUMULATORS_H_

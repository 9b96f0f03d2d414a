#ifndef KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_DECOMPOSITION_H_
#define KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_DECOMPOSITION_H_

// One composite node being replaced: its arguments by the schema's names, as
// values of the graph that is being written, and the emitter to write with.
//
// A decomposition computes in f32 (f64 for f64) from the first operator to the
// last: half types are brought up at the start and rounded once at the end, by
// the caller, who gives every result the dtype, and the strides, of the node's
// own (as in Inductor: rounding happens at stores only).

#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/config/target.h"
#include "compiler/graph/graph.h"
#include "compiler/graph_passes/emitter.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// In order of the node's results; none where a result is not defined.
using Parts = absl::InlinedVector<std::optional<ValueId>, 3>;

class Decomposition {
 public:
  // All outlive the decomposition. `args`: those of `op`, in schema order,
  // already values of `e`'s graph. `results`: what the node's results were.
  Decomposition(const OpDef& op, absl::Span<const Argument> args,
                absl::Span<const TensorMeta> results, const Target& target,
                Emitter& e)
      : e(e), op_(op), args_(args), results_(results), target_(target) {}

  Emitter& e;

  const OpDef& op() const { return op_; }
  // Some operators are a library's on one device and loops on another.
  const Target& target() const { return target_; }
  size_t num_results() const { return results_.size(); }
  const TensorMeta& result(size_t i) const { return results_[i]; }

  bool Has(absl::string_view name) const { return !Get(name).is_none(); }
  const Argument& Get(absl::string_view name) const;
  ValueId Tensor(absl::string_view name) const { return Get(name).value(); }
  // The tensor in the type that is computed in.
  ValueId Compute(absl::string_view name) { return e.Compute(Tensor(name)); }
  std::vector<ValueId> Tensors(absl::string_view name) const;
  DimVector Ints(absl::string_view name) const;
  // As these numbers are read, so the artifact is: a symbol is fixed at its
  // hint, by a guard.
  std::vector<int64_t> FixedInts(absl::string_view name) const;
  int64_t Int(absl::string_view name) const;
  // A dim or a list of dims of a tensor of `rank`, in [0, rank), ascending.
  // Absent or empty: all.
  std::vector<int64_t> Dims(absl::string_view name, int rank) const;
  int64_t Dim(absl::string_view name, int rank) const;
  double Float(absl::string_view name) const;  // fixed too
  bool Bool(absl::string_view name) const;
  std::vector<bool> Bools(absl::string_view name) const;
  absl::string_view String(absl::string_view name) const;  // "" when absent
  Emitter::Keep Keepdim() const;

  // Gives the node up: UNSUPPORTED_OP with `what` is not covered; whoever runs
  // the decomposition puts the operator's name in front.
  Parts Unsupported(absl::string_view what);

 private:
  int64_t Fixed(const SymExpr& number, absl::string_view name) const;

  const OpDef& op_;
  absl::Span<const Argument> args_;
  absl::Span<const TensorMeta> results_;
  const Target& target_;
};

// The dims of `rank` that are not in `dims`.
std::vector<int64_t> OtherDims(absl::Span<const int64_t> dims, int rank);
// first, first + 1, ..., last - 1.
std::vector<int64_t> DimRange(int64_t first, int64_t last);

using DecomposeFn = Parts (*)(Decomposition& d);

// An operator and what takes it apart, as each family lists them.
struct DecomposeRow {
  absl::string_view name;
  DecomposeFn run;
  // Which of its nodes are taken apart, by the first result; null: all.
  bool (*takes)(const Node& node, const TensorMeta& result,
                const PassEnv& env) = nullptr;
};

// Null for an operator without a decomposition.
const DecomposeRow* FindDecomposition(const OpDef& op);

// The families, each in the file of its name.
absl::Span<const DecomposeRow> ActivationDecompositions();
absl::Span<const DecomposeRow> NormDecompositions();
absl::Span<const DecomposeRow> SoftmaxDecompositions();
absl::Span<const DecomposeRow> LossDecompositions();
absl::Span<const DecomposeRow> StatisticsDecompositions();
absl::Span<const DecomposeRow> MatmulDecompositions();
absl::Span<const DecomposeRow> ConvolutionDecompositions();
absl::Span<const DecomposeRow> AttentionDecompositions();
absl::Span<const DecomposeRow> ForeachDecompositions();
absl::Span<const DecomposeRow> MovementDecompositions();
absl::Span<const DecomposeRow> PointwiseDecompositions();
absl::Span<const DecomposeRow> PoolingDecompositions();
absl::Span<const DecomposeRow> OrderDecompositions();
absl::Span<const DecomposeRow> FactoryDecompositions();
absl::Span<const DecomposeRow> RearrangeDecompositions();
absl::Span<const DecomposeRow> EmbeddingDecompositions();
absl::Span<const DecomposeRow> ScatterProductDecompositions();

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_DECOMPOSITION_H_

#ifndef KILN_TESTS_SUPPORT_LOOP_INTERPRETER_H_
#define KILN_TESTS_SUPPORT_LOOP_INTERPRETER_H_

// Runs loop programs and kernel plans point by point, with no code generated:
// what the compiler's middle means, checked against the reference interpreter.
// Slow and plain on purpose. float32 is rounded after each operation.

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/reference/ref_tensor.h"
#include "compiler/reference/run_reference.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// One element: `f` of float types, else `i`.
struct Cell {
  double f = 0;
  int64_t i = 0;
};

Cell ReadCell(DType dtype, const char* at);
void WriteCell(DType dtype, Cell value, char* at);
// What a store that adds or keeps the greatest leaves.
Cell Updated(StoreMode mode, Cell old, Cell value);
// One operation that is neither a leaf nor a reduction.
Cell ComputeScalar(const ScalarNode& node, DType arg_dtype,
                   absl::Span<const Cell> args);
// Folds `next` into `total`; `first`: there is no total yet.
void Combine(ReduceOp op, DType dtype, bool first, absl::Span<const Cell> next,
             std::vector<Cell>& total);
std::vector<Cell> EmptyReduction(ReduceOp op, DType dtype);
// kCheckIndex and kWrapIndex. OUT_OF_RANGE for an index outside.
absl::StatusOr<Cell> CheckedIndex(const ScalarNode& node, const Cell* args);
// Where the values of `row` stand in order: kSort.
std::vector<int64_t> Sorted(ReduceOp order, DType dtype,
                            absl::Span<const Cell> row);
// How many cells before each of `row` have its value: kTally.
std::vector<int64_t> Tallied(absl::Span<const Cell> row);

// A strided window on somebody's memory, sizes known.
struct MemoryView {
  DType dtype;
  std::vector<int64_t> sizes, strides;
  char* first;

  Cell At(absl::Span<const int64_t> index) const;
  void Set(absl::Span<const int64_t> index, Cell value) const;
};

// INTERNAL for a call it does not know.
absl::Status RunCall(const LibraryCall& call,
                     absl::Span<const MemoryView> inputs,
                     absl::Span<const MemoryView> outputs);

// A contraction on its three arrays. evaluate(e, axes): of an index; load(node,
// axes): of a load of its body.
void RunContraction(
    const Contraction& contraction, absl::Span<const MemoryView> arrays,
    absl::Span<const int64_t> extents,
    absl::FunctionRef<int64_t(const SymExpr&, absl::Span<const int64_t>)>
        evaluate,
    absl::FunctionRef<Cell(const ScalarNode&, absl::Span<const int64_t>)> load);

// Errors: INTERNAL when a load or store leaves its buffer, or a kernel loads
// what it stores at another place: bugs of the compiler.
absl::StatusOr<RefOutcome> RunLoops(const LoopProgram& program,
                                    absl::Span<const GraphConstant> constants,
                                    absl::Span<const RefValue> inputs);

// The same of a plan; temporaries lie in one arena, as placed.
absl::StatusOr<RefOutcome> RunPlan(const KernelPlan& plan,
                                   absl::Span<const GraphConstant> constants,
                                   absl::Span<const RefValue> inputs);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_LOOP_INTERPRETER_H_

#ifndef KILN_COMPILER_REFERENCE_REF_CALL_H_
#define KILN_COMPILER_REFERENCE_REF_CALL_H_

// One node as a reference function sees it: arguments by the names of the
// schema, in numbers, and the expected results.
//
// A wrong name or type is a disagreement between a reference function and the
// operator table, so it is remembered and reported by RunReference after the
// function returned; readers then give an empty value. One thread.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/graph/graph.h"
#include "compiler/reference/ref_tensor.h"

namespace kiln {

using RefResults = std::vector<RefTensor>;

// Dtype and layout that the graph says a result has, in numbers.
struct RefMeta {
  DType dtype = DType::kFloat32;
  Sizes sizes;
  Sizes strides;
  int64_t offset = 0;
  bool defined = true;
};

// A Python number.
struct RefNumber {
  bool floating = false;
  double f = 0;
  int64_t i = 0;
  double F() const { return floating ? f : static_cast<double>(i); }
};

class RefCall {
 public:
  struct State {
    const std::vector<int64_t>& symbols;   // values, in order of the graph's
    const std::vector<RefTensor>& values;  // by ValueId
    uint64_t seed = 0;                     // of this run's random numbers
    uint64_t* next_stream = nullptr;  // each draw of a run has its own stream
  };

  // All outlive the call. `results` in order of the node's.
  RefCall(const OpDef& op, absl::Span<const Argument> args, const State& state,
          absl::Span<const RefMeta> results)
      : op_(op), args_(args), state_(state), results_(results) {}

  const OpDef& op() const { return op_; }
  uint64_t seed() const { return state_.seed; }
  // The number of a new stream: 0, 1, ... in order of the random operators.
  uint64_t NextStream() { return (*state_.next_stream)++; }
  // Whether the argument is there and is not None.
  bool Has(absl::string_view name) const;

  // A tensor; a number given where a tensor may stand becomes 0-d.
  RefTensor Tensor(absl::string_view name);
  Elements Load(absl::string_view name);
  // None in an optional list is an undefined tensor.
  std::vector<RefTensor> Tensors(absl::string_view name);
  int64_t Int(absl::string_view name);
  Sizes Ints(absl::string_view name);  // a single integer is a list of one
  double Float(absl::string_view name);
  std::vector<RefNumber> Numbers(absl::string_view name);  // of a list
  RefNumber Number(absl::string_view name);
  bool Bool(absl::string_view name);
  std::vector<bool> Bools(absl::string_view name);
  std::string String(absl::string_view name);
  DType ScalarType(absl::string_view name);
  bool IsNumber(absl::string_view name) const;  // not a tensor

  int num_results() const { return static_cast<int>(results_.size()); }
  const RefMeta& result(int i) const { return results_[i]; }
  // The i-th result with its expected layout and these elements. Other sizes
  // than expected fail the call.
  RefTensor Make(int i, const Elements& elements);

  // For other rules that a function finds broken. The first one is kept.
  void Fail(absl::string_view what);
  const absl::Status& status() const { return status_; }

 private:
  const Argument* Find(absl::string_view name) const;
  const Argument& Get(absl::string_view name);
  int64_t Evaluate(const SymExpr& e) const;
  RefNumber ToNumber(const Argument& arg);
  RefTensor ToTensor(const Argument& arg);

  const OpDef& op_;
  absl::Span<const Argument> args_;
  const State& state_;
  absl::Span<const RefMeta> results_;
  absl::Status status_;
};

// Computes the results of one node. Failures go through RefCall::Fail.
using ReferenceFn = RefResults (*)(RefCall&);

// An operator and who computes it, as each family lists them.
struct ReferenceRow {
  absl::string_view name;  // "aten.add.Tensor"
  ReferenceFn run;
};

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_REF_CALL_H_

#ifndef KILN_COMPILER_GRAPH_OP_DEF_H_
#define KILN_COMPILER_GRAPH_OP_DEF_H_

// A row of the operator table: what is true of an operator, and who does its
// work. The work itself is in the rooms above, each with a table of its own
// under the same rows: graph_passes/decompose for kDecompose, loop/lower_graph
// for kLower, loop/lower_contraction for kStep, reference/ for all. A test holds
// the tables together: a row without its worker fails.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/graph/argument.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

enum class Handling : uint8_t {
  kView,   // results alias an input: index arithmetic while lowering, no code
  kLower,  // a loop nest
  kDecompose,  // replaced by other operators
  kStep,       // a step of its own: a contraction, an order of rows
  kMutate,  // writes an input (aten.copy_ and in-place forms): functionalize removes it
};

// The type of one schema parameter.
enum class ParamType : uint8_t {
  kTensor,
  kOptionalTensor,
  kTensorList,
  kOptionalTensorList,
  kInt,
  kOptionalInt,
  kIntList,
  kOptionalIntList,  // ints may be symbolic
  kFloat,
  kOptionalFloat,
  kFloatList,
  kOptionalFloatList,
  kBool,
  kOptionalBool,
  kBoolList,
  kScalar,
  kOptionalScalar,  // int, float or bool
  kString,
  kOptionalString,
  kDType,
  kOptionalDType,
  kMemoryFormat,
  kDevice,
  kLayout,
  kGenerator,
};

struct Param {
  std::string name;
  ParamType type;
  bool keyword_only = false;
  bool mutated = false;  // "Tensor(a!)"
  int alias_set = -1;    // "(a)" is 0, "(b)" is 1; -1: none
  bool has_default = false;
  Argument default_value;
  int list_size = 0;  // "int[2]": 2; 0: any
};

struct Schema {
  std::vector<Param> params;
  struct Result {
    bool list = false;
    int alias_set = -1;
  };
  std::vector<Result> results;
};

using Arguments = absl::InlinedVector<Argument, 4>;
using ValueIds = absl::InlinedVector<ValueId, 1>;
using TensorMetas = absl::InlinedVector<TensorMeta, 1>;

// What an inference rule is given: the arguments in schema order, complete and
// of the schema's types, and the metas behind them.
//
// A parameter of type kTensor that is named `other`, `exponent`, `value` or `b` may
// hold a number instead of a value: PyTorch's wrapped numbers.
struct InferInput {
  const Schema& schema;
  absl::Span<const Argument> args;
  // The meta of an argument that is_value().
  absl::FunctionRef<const TensorMeta&(const Argument&)> meta_of;
  // Equalities that are decided by a hint are recorded here as guards.
  ShapeEnv& shapes;
  // Decides the dtype of statistics: the CPU keeps those of half types half.
  DeviceType device = DeviceType::kCpu;

  bool has(size_t i) const { return !args[i].is_none(); }
  bool is_tensor(size_t i) const { return args[i].is_value(); }
  const TensorMeta& tensor(size_t i) const { return meta_of(args[i]); }
  // The metas of a list of tensors, absent ones left out.
  std::vector<const TensorMeta*> tensors(size_t i) const;
  const SymExpr& sym(size_t i) const { return args[i].sym(); }
  // A number that is fixed: a symbol is specialized, with a guard.
  int64_t integer(size_t i) const;
  bool flag(size_t i) const;                        // false when absent
  DimVector ints(size_t i) const;                   // empty when absent
  std::vector<int64_t> fixed_ints(size_t i) const;  // specialized
  std::optional<DType> dtype(size_t i) const;
};

// Sizes, strides, offset and dtype of each result as PyTorch's eager mode
// gives them. MALFORMED_GRAPH: what was found and what was expected.
using InferFn = absl::StatusOr<TensorMetas> (*)(const InferInput&);

struct OpDef {
  absl::string_view name;  // "aten.add.Tensor"
  absl::string_view
      schema_text;  // "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  InferFn infer = nullptr;
  Handling handling = Handling::kLower;
  // Filled when the tables are joined.
  Schema schema;
  uint32_t index = 0;  // dense; rooms above keep arrays by it
  // Of an in-place form (aten.add_.Tensor): the operator that computes what
  // its first argument becomes, from the same arguments (aten.add.Tensor).
  const OpDef* functional = nullptr;
};

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_OP_DEF_H_

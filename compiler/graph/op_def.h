#ifndef KILN_COMPILER_GRAPH_OP_DEF_H_
#define KILN_COMPILER_GRAPH_OP_DEF_H_

// A row of the operator table: what is true of an operator, and who does its
// work. The work itself is in the rooms above, each with a table of its own
// under the same rows: graph_passes/decompose for kDecompose, loop/lower_graph
// for kLower, emit/ for kExtern, reference/ for all. A test holds the tables
// together: a row without its worker fails.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/graph/argument.h"
#include "compiler/graph/tensor_meta.h"

namespace kiln {

class ShapeEnv;

enum class Handling : uint8_t {
  kView,   // results alias an input: index arithmetic while lowering, no code
  kLower,  // a loop nest
  kDecompose,  // replaced by other operators
  kExtern,     // a library call
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
};

struct Schema {
  std::vector<Param> params;
  struct Result {
    bool list = false;
    int alias_set = -1;
  };
  std::vector<Result> results;
};

// What InferMeta is given: the arguments in schema order, complete, and the
// metas behind them.
struct InferInput {
  const Schema& schema;
  absl::Span<const Argument> args;
  // The meta of a kValue argument.
  absl::FunctionRef<const TensorMeta&(const Argument&)> meta_of;
  ShapeEnv&
      shapes;  // equalities that are decided by a hint are recorded as guards
};

// Sizes, strides, offset and dtype of each result as PyTorch's eager mode
// gives them. MALFORMED_GRAPH names the argument: what was found, what was due.
using InferFn =
    absl::StatusOr<absl::InlinedVector<TensorMeta, 1>> (*)(const InferInput&);

struct OpDef {
  absl::string_view name;  // "aten.add.Tensor"
  absl::string_view
      schema_text;  // "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  InferFn infer = nullptr;
  Handling handling = Handling::kLower;
  // Filled when the tables are joined.
  Schema schema;
  uint32_t index = 0;  // dense; rooms above keep arrays by it
};

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_OP_DEF_H_

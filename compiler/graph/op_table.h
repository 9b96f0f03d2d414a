#ifndef KILN_COMPILER_GRAPH_OP_TABLE_H_
#define KILN_COMPILER_GRAPH_OP_TABLE_H_

// Every operator Kiln knows, one row each. Rows live in one file a family
// (pointwise_ops.cc, view_ops.cc, ...) and are joined here, once a process.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/graph/op_def.h"

namespace kiln {

// A row as its family writes it.
struct OpRow {
  absl::string_view name;    // "aten.add.Tensor"
  absl::string_view schema;  // PyTorch's, without the name
  InferFn infer;
  Handling handling;
  // kYes: "aten.add_.Tensor" is a row too, with a mutated first parameter.
  enum class Inplace : uint8_t { kNo, kYes } inplace = Inplace::kNo;
};

// The operator named so, or null. O(1); the pointer is good for ever.
const OpDef* FindOp(absl::string_view name);

// The same for names our own code writes: one that is not in the table ends
// the process with its name.
const OpDef& KnownOp(absl::string_view name);

// "add" of "aten.add.Tensor": what people call it. Letters, digits and '_'.
std::string PacketName(absl::string_view op);

// UNSUPPORTED_OP for a name that is not in the table, with the nearest names
// where they are to be looked for, which takes long.
absl::Status UnknownOp(absl::string_view name, bool look_for_near = true);

// All operators, by OpDef::index.
absl::Span<const OpDef> AllOps();

// What a wrong row is reported by; OK in every build that passed its tests.
// Each name once, each schema understood, each row with an inference rule.
absl::Status CheckOpTable();

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_OP_TABLE_H_

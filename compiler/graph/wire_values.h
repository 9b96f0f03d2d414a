#ifndef KILN_COMPILER_GRAPH_WIRE_VALUES_H_
#define KILN_COMPILER_GRAPH_WIRE_VALUES_H_

// Wire messages of sizes, dtypes and names as the compiler's own. Used by
// graph_import alone.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/graph/argument.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/sym/shape_env.h"
#include "proto/graph.pb.h"

namespace kiln {

// MALFORMED_GRAPH for code that is no expression, a symbol the graph lacks or a
// division by 0; UNSUPPORTED_OP for comparisons and logic.
absl::StatusOr<SymExpr> SymExprFromWire(const wire::SymExpr& wire,
                                        uint32_t num_symbols);

// A condition that is one comparison. UNSUPPORTED_OP for any other; else the
// errors of SymExprFromWire. The origin is not read: it is a client's word.
absl::StatusOr<Guard> GuardFromWire(const wire::SymExpr& condition,
                                    uint32_t num_symbols);

absl::StatusOr<DType> DTypeOfWire(wire::DType dtype);

// Sizes and strides at least 0, equal in number, at most 64.
absl::StatusOr<TensorMeta> TensorMetaFromWire(const wire::TensorMeta& wire,
                                              uint32_t num_symbols);

// TOO_LARGE above 1 KiB, MALFORMED_GRAPH for a control character.
absl::Status CheckName(absl::string_view name);
// Words of text only, at most 64 of them; may be empty.
std::string TextName(absl::string_view name);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_WIRE_VALUES_H_

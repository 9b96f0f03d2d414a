#ifndef KILN_PROTO_CORPUS_SYM_TEXT_H_
#define KILN_PROTO_CORPUS_SYM_TEXT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/graph.pb.h"

namespace kiln {

// Gives the number of a symbol by its name, or an error that names it.
using SymbolNumber =
    absl::FunctionRef<absl::StatusOr<int64_t>(absl::string_view name)>;

// Reads an integer expression as PyTorch prints it: "4*s53", "s0//2",
// "Mod(s0, 8)", "Max(s0, s1)", "-s0 + 3", "(s0//16)*2", "s0**2".
//
// Grammar, loosest first; `**` takes a constant exponent from 0 to 16:
//   sum      product { ("+" | "-") product }
//   product  unary { ("*" | "//" | "%") unary }
//   unary    "-" unary | power
//   power    atom [ "**" unary ]
//   atom     number | name | name "(" sum { "," sum } ")" | "(" sum ")"
//
// Functions: Mod, PythonMod, FloorDiv, CleanDiv, Max, Min, Eq, Ne, Lt, Le, Gt,
// Ge, Identity. Parts without symbols are folded.
//
// Errors:
//   UNIMPLEMENTED     UNSUPPORTED_OP   another function, true division
//   INVALID_ARGUMENT  MALFORMED_GRAPH  not an expression; a constant past int64
//   what `number_of` gives
absl::StatusOr<wire::SymExpr> ParseSymText(absl::string_view text,
                                           SymbolNumber number_of);

// Calls `visit` with each name of `text` that is not followed by "(", in order
// and as often as it stands there.
void VisitSymbolNames(absl::string_view text,
                      absl::FunctionRef<void(absl::string_view)> visit);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_SYM_TEXT_H_

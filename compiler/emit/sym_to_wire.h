#ifndef KILN_COMPILER_EMIT_SYM_TO_WIRE_H_
#define KILN_COMPILER_EMIT_SYM_TO_WIRE_H_

#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"
#include "compiler/sym/sym_expr.h"
#include "proto/artifact.pb.h"
#include "proto/guard.pb.h"

namespace kiln {

// An expression over symbols as a wire recipe. Only Var::kSymbol may occur:
// loops are gone when a plan is emitted. Pure.
wire::SymExpr ToWire(const SymExpr& e);

// `guard` as a condition that holds when it is not zero.
wire::SymGuard ToWire(const Guard& guard);

// The bits of one element of `dtype` that holds `value` (rounded to nearest
// even where the type is narrower), in the low bytes.
uint64_t ElementBits(DType dtype, Number value);

}  // namespace kiln

#endif  // KILN_COMPILER_EMIT_SYM_TO_WIRE_H_

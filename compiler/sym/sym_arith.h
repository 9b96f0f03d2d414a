#ifndef KILN_COMPILER_SYM_SYM_ARITH_H_
#define KILN_COMPILER_SYM_SYM_ARITH_H_

// How the files of this room build expressions out of terms. Nobody else
// needs it: use the operators of sym_expr.h.

#include <cstdint>

#include "absl/types/span.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

// Two's complement, so that hostile sizes are no undefined behaviour.
inline int64_t WrappedAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}
inline int64_t WrappedMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) *
                              static_cast<uint64_t>(b));
}

// Towards minus infinity; a division by 0 gives 0.
inline int64_t FloorDivInts(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return WrappedMul(a, -1);
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
inline int64_t ModInts(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

int64_t ApplySymOp(SymOp op, int64_t a, int64_t b);
SymExpr ApplySymOp(SymOp op, const SymExpr& a, const SymExpr& b);

// The sum of terms in any order, repeats allowed; atoms of each in order.
SymExpr SymExprFromTerms(SymExpr::Terms terms);
// The operation as an atom, unsimplified.
SymExpr SymExprOfOperation(SymOp op, SymExpr left, SymExpr right);
SymExpr SymExprOfAtom(const SymExpr::Atom& atom);

// The terms of an expression, which must outlive this. Also of a constant; 0 has none.
class TermList {
 public:
  explicit TermList(const SymExpr& e) {
    if (!e.is_constant()) {
      terms_ = e.sum().terms;
    } else if (e.constant() != 0) {
      constant_.coefficient = e.constant();
      terms_ = absl::MakeConstSpan(&constant_, 1);
    }
  }
  TermList(const TermList&) = delete;
  TermList& operator=(const TermList&) = delete;

  const SymExpr::Term* begin() const { return terms_.data(); }
  const SymExpr::Term* end() const { return terms_.data() + terms_.size(); }
  size_t size() const { return terms_.size(); }
  const SymExpr::Term& operator[](size_t i) const { return terms_[i]; }

 private:
  SymExpr::Term constant_{0, {}};
  absl::Span<const SymExpr::Term> terms_;
};

// Whether `term` is `divisor` times another term, which is then `quotient`.
bool DivideTerm(const SymExpr::Term& term, const SymExpr::Term& divisor,
                SymExpr::Term* quotient);
bool SameAtom(const SymExpr::Atom& a, const SymExpr::Atom& b);

}  // namespace kiln

#endif  // KILN_COMPILER_SYM_SYM_ARITH_H_

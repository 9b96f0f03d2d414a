#ifndef KILN_COMPILER_SYM_SYM_EXPR_H_
#define KILN_COMPILER_SYM_SYM_EXPR_H_

// Integer expressions over graph symbols, loop axes and loaded indices.
//
// An expression is always in normal form: a sum of terms, each a coefficient
// times a product of atoms, where an atom is a variable or an opaque
// floordiv, mod, min or max of expressions in normal form. Equal polynomials
// are therefore equal values, whatever order they were built in. What needs
// the range of a variable (`i // 4` is 0 for i < 4) is sym_simplify's.
//
// A constant costs no allocation: most graphs have no symbols, and the
// compiler makes millions of these.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace kiln {

// What an expression may depend on.
struct Var {
  enum class Kind : uint8_t {
    kSymbol,    // index: of Graph::symbols
    kAxis,      // index: of LoopNest::axes
    kIndirect,  // index: of the node of the nest's body that computes it
  };
  Kind kind;
  uint32_t index;

  friend bool operator==(Var a, Var b) {
    return a.kind == b.kind && a.index == b.index;
  }
  friend bool operator<(Var a, Var b) {
    return a.kind != b.kind ? a.kind < b.kind : a.index < b.index;
  }
};

enum class SymOp : uint8_t { kFloorDiv, kMod, kMin, kMax };

class SymExpr {
 public:
  struct Atom;
  struct Term;
  struct Sum;
  // Two: an address of a row and a column. One atom: a variable.
  using Terms = absl::InlinedVector<Term, 2>;

  SymExpr() = default;
  SymExpr(int64_t value) : value_(value) {}  // NOLINT: numbers are expressions
  static SymExpr Of(Var var);
  static SymExpr Symbol(uint32_t index) {
    return Of({Var::Kind::kSymbol, index});
  }
  static SymExpr Axis(uint32_t index) { return Of({Var::Kind::kAxis, index}); }
  static SymExpr Indirect(uint32_t node) {
    return Of({Var::Kind::kIndirect, node});
  }

  bool is_constant() const { return sum_ == nullptr; }
  // Only when is_constant().
  int64_t constant() const { return value_; }
  bool Is(int64_t value) const { return is_constant() && value_ == value; }

  // The terms in normal order; only when not is_constant().
  const Sum& sum() const { return *sum_; }

  // The variable when the expression is just one; else false.
  bool AsVar(Var* var) const;

  // Calls `visit` for every variable, also inside opaque atoms; repeats.
  void VisitVars(absl::FunctionRef<void(Var)> visit) const;
  bool DependsOn(Var var) const;

  // The expression with each variable replaced by what `value_of` gives.
  SymExpr Substitute(absl::FunctionRef<SymExpr(Var)> value_of) const;

  // Exact value for given variables. Division by zero gives 0.
  int64_t Evaluate(absl::FunctionRef<int64_t(Var)> value_of) const;

  // Text that the parser of sym_text.h reads back: "4*s0 + i1 // 8".
  std::string ToString(absl::FunctionRef<std::string(Var)> name_of) const;
  // With names s0, i0, t0.
  std::string ToString() const;

  friend SymExpr operator+(const SymExpr& a, const SymExpr& b);
  friend SymExpr operator-(const SymExpr& a, const SymExpr& b);
  friend SymExpr operator*(const SymExpr& a, const SymExpr& b);
  SymExpr& operator+=(const SymExpr& b) { return *this = *this + b; }
  SymExpr& operator*=(const SymExpr& b) { return *this = *this * b; }

  // Structural, which for normal forms means: equal as polynomials.
  friend bool operator==(const SymExpr& a, const SymExpr& b) {
    if (a.sum_ == b.sum_) return a.sum_ != nullptr || a.value_ == b.value_;
    return a.sum_ != nullptr && b.sum_ != nullptr && EqualSums(a, b);
  }
  friend bool operator!=(const SymExpr& a, const SymExpr& b) {
    return !(a == b);
  }
  // A total order that depends on structure alone.
  friend bool operator<(const SymExpr& a, const SymExpr& b);

  template <typename H>
  friend H AbslHashValue(H h, const SymExpr& e) {
    return H::combine(std::move(h), e.StructuralHash());
  }

 private:
  friend class SumBuilder;
  static bool EqualSums(const SymExpr& a, const SymExpr& b);
  uint64_t StructuralHash() const;

  int64_t value_ = 0;
  std::shared_ptr<const Sum> sum_;
};

// Rounding towards minus infinity, as Python. A divisor is never 0: the
// constant 0 gives 0, a symbolic one is taken as not 0, so (s0*x) // s0 is x.
// Multiples of the divisor are taken out: (8*a + r) // 4 = 2*a + r // 4.
SymExpr FloorDiv(const SymExpr& a, const SymExpr& b);
SymExpr Mod(const SymExpr& a, const SymExpr& b);
SymExpr CeilDiv(const SymExpr& a, const SymExpr& b);
SymExpr Min(const SymExpr& a, const SymExpr& b);
SymExpr Max(const SymExpr& a, const SymExpr& b);

// A variable, or an operation on two expressions.
struct SymExpr::Atom {
  // `var` counts when `operands` is null, else `op`.
  Var var;
  SymOp op;
  std::shared_ptr<const std::pair<SymExpr, SymExpr>> operands;

  bool is_var() const { return operands == nullptr; }
};

struct SymExpr::Term {
  int64_t coefficient;
  absl::InlinedVector<Atom, 1>
      atoms;  // in order, repeated for powers; empty: the constant term
};

struct SymExpr::Sum {
  Terms terms;  // in order, no two with equal atoms, none with coefficient 0
  uint64_t hash;
};

using DimVector = absl::InlinedVector<SymExpr, 4>;

// The product of all; 1 for none.
SymExpr Product(const DimVector& dims);

// Elements from a strided tensor's first to behind its last. 0 where an extent is
// the constant 0; for a symbolic extent that is 0 it may be below 0.
SymExpr SpanElements(const DimVector& sizes, const DimVector& strides);

}  // namespace kiln

#endif  // KILN_COMPILER_SYM_SYM_EXPR_H_

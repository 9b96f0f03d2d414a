#ifndef KILN_COMPILER_SYM_SHAPE_ENV_H_
#define KILN_COMPILER_SYM_SHAPE_ENV_H_

// The symbols of a graph with what is known of them, and the guards that the
// compiler takes while it specializes.
//
// Whether a comparison holds is answered by, in this order:
//
//   1. ranges of symbols and guards that were taken already. What follows from
//      them is known and takes no guard.
//   2. forbidden guards: the negation of one is a fact of the call that asked.
//   3. hints. They are either classes (a power of two that stands for many
//      calls) or, when a caller asks again since it broke a guard, its sizes.
//
// By 2 and 3 a guard is taken that makes the answer hold. It holds at the hints,
// always: so an artifact that is made for a caller's own sizes serves them.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/sym/sym_expr.h"
#include "compiler/sym/value_range.h"

namespace kiln {

// Where a symbol's value is found when a call comes in.
struct SymbolSource {
  enum class Kind : uint8_t { kSize, kStride, kOffset, kScalar };
  Kind kind = Kind::kScalar;
  uint32_t input = 0;
  uint32_t dim = 0;
};

struct SymbolFacts {
  std::string name;
  int64_t hint = 0;  // the value, or its class, of the call that asked
  ValueRange range;  // inclusive
  SymbolSource source;
};

// A comparison that the artifact relies on.
enum class GuardOp : uint8_t { kEq, kNe, kLt, kLe };
struct Guard {
  GuardOp op;
  SymExpr left, right;
  std::string origin;  // who assumed it and why
  friend bool operator==(const Guard& a, const Guard& b) {
    return a.op == b.op && a.left == b.left && a.right == b.right;
  }
};

class ShapeEnv {
 public:
  std::vector<SymbolFacts> symbols;

  int64_t Hint(const SymExpr& e) const;      // value at the hints
  ValueRange Range(const SymExpr& e) const;  // sound bounds

  // True only when it holds for every value in range. Takes no guard.
  bool KnownEq(const SymExpr& a, const SymExpr& b) const;
  bool KnownLt(const SymExpr& a, const SymExpr& b) const;
  bool KnownLe(const SymExpr& a, const SymExpr& b) const;
  // Whatever its form: `s0 - s0 // 2` is 1 once a guard says so.
  bool KnownOne(const SymExpr& size) const;

  // The guard may not be relied on: its negation is true of the call that asks,
  // and so at the hints.
  void Forbid(const Guard& guard);

  // Decides by what is known, else by what is forbidden, else by the hints; the
  // latter two take a guard that makes the decision hold, and `origin` says who
  // decided. A guard on one symbol narrows its range.
  bool DecideEq(const SymExpr& a, const SymExpr& b, absl::string_view origin);
  bool DecideLt(const SymExpr& a, const SymExpr& b, absl::string_view origin);
  bool DecideLe(const SymExpr& a, const SymExpr& b, absl::string_view origin);

  // Whether a size is 1, and so goes with any other. Takes a guard only to say
  // that it is: what is not 1 must equal the other, which is a guard by itself.
  bool DecideIsOne(const SymExpr& size, absl::string_view origin);

  // The one value that `e` has from now on: its hint, with a guard.
  int64_t Specialize(const SymExpr& e, absl::string_view origin);

  const std::vector<Guard>& guards() const { return guards_; }
  // The range that the client vouched for, as it was before guards narrowed it.
  ValueRange DeclaredRange(uint32_t symbol) const;
  // For a parser that reads a graph back.
  void TakeGuard(GuardOp op, const SymExpr& left, const SymExpr& right,
                 absl::string_view origin);

 private:
  // What comparisons say of differences.
  struct Facts {
    std::vector<SymExpr> not_negative;
    std::vector<SymExpr> not_zero;

    void Add(GuardOp op, const SymExpr& left, const SymExpr& right);
    void AddNegation(GuardOp op, const SymExpr& left, const SymExpr& right);
  };

  // A lower bound of `e` by ranges and one of the facts at a time.
  int64_t Least(const SymExpr& e, const Facts& facts) const;
  // Empty when it is not known.
  std::optional<bool> IsZero(const SymExpr& e, const Facts& facts) const;
  std::optional<bool> IsPositive(const SymExpr& e, const Facts& facts) const;
  void NarrowRange(GuardOp op, const SymExpr& difference);

  std::vector<Guard> guards_;
  Facts taken_;      // by the guards
  Facts forbidden_;  // by negations of what is forbidden
  // Of symbols that guards have narrowed: what their range was before.
  std::vector<std::pair<uint32_t, ValueRange>> declared_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SYM_SHAPE_ENV_H_

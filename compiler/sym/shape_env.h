#ifndef KILN_COMPILER_SYM_SHAPE_ENV_H_
#define KILN_COMPILER_SYM_SHAPE_ENV_H_

// The symbols of a graph with what is known of them, and the guards that the
// compiler takes while it specializes.

#include <cstdint>
#include <string>
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
  int64_t hint = 0;  // the value of the call that asked
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
  bool KnownNe(const SymExpr& a, const SymExpr& b) const;
  bool KnownLt(const SymExpr& a, const SymExpr& b) const;
  bool KnownLe(const SymExpr& a, const SymExpr& b) const;

  // Decides by what is known, else by the hints, and then takes a guard that
  // makes the decision hold; `origin` says who decided. A guard on one symbol
  // narrows its range.
  bool DecideEq(const SymExpr& a, const SymExpr& b, absl::string_view origin);
  bool DecideLt(const SymExpr& a, const SymExpr& b, absl::string_view origin);
  bool DecideLe(const SymExpr& a, const SymExpr& b, absl::string_view origin);

  // The one value that `e` has from now on: its hint, with a guard.
  int64_t Specialize(const SymExpr& e, absl::string_view origin);

  const std::vector<Guard>& guards() const { return guards_; }
  // For a parser that reads a graph back.
  void TakeGuard(GuardOp op, const SymExpr& left, const SymExpr& right,
                 absl::string_view origin);

 private:
  bool IsGuarded(const Guard& guard) const;

  std::vector<Guard> guards_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SYM_SHAPE_ENV_H_

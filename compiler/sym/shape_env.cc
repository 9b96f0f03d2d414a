#include "compiler/sym/shape_env.h"

#include <algorithm>
#include <utility>

#include "compiler/sym/sym_arith.h"

namespace kiln {

int64_t ShapeEnv::Hint(const SymExpr& e) const {
  return e.Evaluate([this](Var v) -> int64_t {
    return v.kind == Var::Kind::kSymbol && v.index < symbols.size()
               ? symbols[v.index].hint
               : 0;
  });
}

ValueRange ShapeEnv::Range(const SymExpr& e) const {
  return BoundsOf(e, [this](Var v) {
    return v.kind == Var::Kind::kSymbol && v.index < symbols.size()
               ? symbols[v.index].range
               : ValueRange{};
  });
}

bool ShapeEnv::IsGuarded(const Guard& guard) const {
  return std::find(guards_.begin(), guards_.end(), guard) != guards_.end();
}

bool ShapeEnv::KnownEq(const SymExpr& a, const SymExpr& b) const {
  if (a == b) return true;
  const SymExpr difference = a - b;
  if (difference.is_constant()) return difference.constant() == 0;
  if (Range(difference) == ValueRange{0, 0}) return true;
  return IsGuarded({GuardOp::kEq, a, b, ""}) ||
         IsGuarded({GuardOp::kEq, b, a, ""});
}

bool ShapeEnv::KnownNe(const SymExpr& a, const SymExpr& b) const {
  const SymExpr difference = a - b;
  if (difference.is_constant()) return difference.constant() != 0;
  if (!Range(difference).Contains(0)) return true;
  return IsGuarded({GuardOp::kNe, a, b, ""}) ||
         IsGuarded({GuardOp::kNe, b, a, ""});
}

bool ShapeEnv::KnownLt(const SymExpr& a, const SymExpr& b) const {
  const SymExpr difference = b - a;
  if (difference.is_constant()) return difference.constant() > 0;
  return Range(difference).min > 0 || IsGuarded({GuardOp::kLt, a, b, ""});
}

bool ShapeEnv::KnownLe(const SymExpr& a, const SymExpr& b) const {
  const SymExpr difference = b - a;
  if (difference.is_constant()) return difference.constant() >= 0;
  return Range(difference).min >= 0 || IsGuarded({GuardOp::kLe, a, b, ""});
}

bool ShapeEnv::DecideEq(const SymExpr& a, const SymExpr& b,
                        absl::string_view origin) {
  if (KnownEq(a, b)) return true;
  if (KnownNe(a, b)) return false;
  const bool equal = Hint(a) == Hint(b);
  TakeGuard(equal ? GuardOp::kEq : GuardOp::kNe, a, b, origin);
  return equal;
}

bool ShapeEnv::DecideLt(const SymExpr& a, const SymExpr& b,
                        absl::string_view origin) {
  if (KnownLt(a, b)) return true;
  if (KnownLe(b, a)) return false;
  const bool less = Hint(a) < Hint(b);
  if (less) {
    TakeGuard(GuardOp::kLt, a, b, origin);
  } else {
    TakeGuard(GuardOp::kLe, b, a, origin);
  }
  return less;
}

bool ShapeEnv::DecideLe(const SymExpr& a, const SymExpr& b,
                        absl::string_view origin) {
  return !DecideLt(b, a, origin);
}

int64_t ShapeEnv::Specialize(const SymExpr& e, absl::string_view origin) {
  if (e.is_constant()) return e.constant();
  const int64_t value = Hint(e);
  DecideEq(e, value, origin);
  return value;
}

void ShapeEnv::TakeGuard(GuardOp op, const SymExpr& left, const SymExpr& right,
                         absl::string_view origin) {
  guards_.push_back({op, left, right, std::string(origin)});
  // What `k*s + c` compared with 0 says of the range of s is known from now on.
  const SymExpr difference = right - left;
  const auto terms = TermsOf(difference);
  if (terms.empty() || terms.size() > 2 || terms[0].atoms.size() != 1 ||
      !terms[0].atoms[0].is_var() ||
      (terms.size() == 2 && !terms[1].atoms.empty())) {
    return;
  }
  const Var var = terms[0].atoms[0].var;
  if (var.kind != Var::Kind::kSymbol || var.index >= symbols.size()) return;
  const int64_t k = terms[0].coefficient;
  const int64_t c = terms.size() == 2 ? terms[1].coefficient : 0;
  ValueRange& range = symbols[var.index].range;
  switch (op) {
    case GuardOp::kEq:
      range = {-c / k, -c / k};
      break;
    case GuardOp::kNe:
      if (c % k != 0) break;
      if (-c / k == range.min) ++range.min;
      if (-c / k == range.max) --range.max;
      break;
    case GuardOp::kLt:
    case GuardOp::kLe: {  // k*s + c >= least
      const int64_t least = op == GuardOp::kLt ? 1 : 0;
      if (k > 0) {
        range.min = std::max(range.min, -FloorDivInts(c - least, k));
      } else {
        range.max = std::min(range.max, FloorDivInts(c - least, -k));
      }
      break;
    }
  }
}

}  // namespace kiln

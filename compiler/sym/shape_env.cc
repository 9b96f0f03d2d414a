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

ValueRange ShapeEnv::DeclaredRange(uint32_t symbol) const {
  for (const auto& [narrowed, range] : declared_) {
    if (narrowed == symbol) return range;
  }
  return symbols[symbol].range;
}

void ShapeEnv::Facts::Add(GuardOp op, const SymExpr& left,
                          const SymExpr& right) {
  switch (op) {
    case GuardOp::kEq:
      not_negative.push_back(right - left);
      not_negative.push_back(left - right);
      break;
    case GuardOp::kNe:
      not_zero.push_back(right - left);
      break;
    case GuardOp::kLt:
      not_negative.push_back(right - left - 1);
      break;
    case GuardOp::kLe:
      not_negative.push_back(right - left);
      break;
  }
}

void ShapeEnv::Facts::AddNegation(GuardOp op, const SymExpr& left,
                                  const SymExpr& right) {
  switch (op) {
    case GuardOp::kEq:
      return Add(GuardOp::kNe, left, right);
    case GuardOp::kNe:
      return Add(GuardOp::kEq, left, right);
    case GuardOp::kLt:
      return Add(GuardOp::kLe, right, left);
    case GuardOp::kLe:
      return Add(GuardOp::kLt, right, left);
  }
}

int64_t ShapeEnv::Least(const SymExpr& e, const Facts& facts) const {
  int64_t least = Range(e).min;
  for (const SymExpr& fact : facts.not_negative) {
    least = std::max(least, Range(e - fact).min);
  }
  return least;
}

std::optional<bool> ShapeEnv::IsZero(const SymExpr& e,
                                     const Facts& facts) const {
  if (e.is_constant()) return e.constant() == 0;
  const SymExpr negative = 0 - e;
  const int64_t least = Least(e, facts),
                negative_least = Least(negative, facts);
  if (least >= 0 && negative_least >= 0) return true;
  if (least > 0 || negative_least > 0) return false;
  for (const SymExpr& fact : facts.not_zero) {
    if (fact == e || fact == negative) return false;
  }
  return std::nullopt;
}

std::optional<bool> ShapeEnv::IsPositive(const SymExpr& e,
                                         const Facts& facts) const {
  if (e.is_constant()) return e.constant() > 0;
  if (Least(e, facts) > 0) return true;
  if (Least(0 - e, facts) >= 0) return false;
  return std::nullopt;
}

bool ShapeEnv::KnownEq(const SymExpr& a, const SymExpr& b) const {
  return a == b || IsZero(b - a, taken_) == true;
}

bool ShapeEnv::KnownLt(const SymExpr& a, const SymExpr& b) const {
  return IsPositive(b - a, taken_) == true;
}

bool ShapeEnv::KnownLe(const SymExpr& a, const SymExpr& b) const {
  return Least(b - a, taken_) >= 0;
}

// What is known holds at the hints: most sizes are told by those.
bool ShapeEnv::KnownOne(const SymExpr& size) const {
  if (size.is_constant()) return size.constant() == 1;
  return Hint(size) == 1 && KnownEq(size, 1);
}

void ShapeEnv::Forbid(const Guard& guard) {
  forbidden_.AddNegation(guard.op, guard.left, guard.right);
}

bool ShapeEnv::DecideEq(const SymExpr& a, const SymExpr& b,
                        absl::string_view origin) {
  if (a == b) return true;
  const SymExpr difference = b - a;
  if (const auto known = IsZero(difference, taken_)) return *known;
  const bool equal =
      IsZero(difference, forbidden_).value_or(Hint(difference) == 0);
  TakeGuard(equal ? GuardOp::kEq : GuardOp::kNe, a, b, origin);
  return equal;
}

bool ShapeEnv::DecideLt(const SymExpr& a, const SymExpr& b,
                        absl::string_view origin) {
  const SymExpr difference = b - a;
  if (const auto known = IsPositive(difference, taken_)) return *known;
  const bool less =
      IsPositive(difference, forbidden_).value_or(Hint(difference) > 0);
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

bool ShapeEnv::DecideIsOne(const SymExpr& size, absl::string_view origin) {
  if (size.is_constant()) return size.constant() == 1;
  return Hint(size) == 1 && DecideEq(size, 1, origin);
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
  taken_.Add(op, left, right);
  NarrowRange(op, right - left);
}

// What `k*s + c` compared with 0 says of the range of s is known from now on.
void ShapeEnv::NarrowRange(GuardOp op, const SymExpr& difference) {
  const TermList terms(difference);
  if (terms.size() == 0 || terms.size() > 2 || terms[0].atoms.size() != 1 ||
      !terms[0].atoms[0].is_var() ||
      (terms.size() == 2 && !terms[1].atoms.empty())) {
    return;
  }
  const Var var = terms[0].atoms[0].var;
  if (var.kind != Var::Kind::kSymbol || var.index >= symbols.size()) return;
  const int64_t k = terms[0].coefficient;
  const int64_t c = terms.size() == 2 ? terms[1].coefficient : 0;
  ValueRange& range = symbols[var.index].range;
  const ValueRange before = range;
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
  const bool noted =
      std::any_of(declared_.begin(), declared_.end(),
                  [&](const auto& entry) { return entry.first == var.index; });
  if (!noted && !(range == before)) declared_.push_back({var.index, before});
}

}  // namespace kiln

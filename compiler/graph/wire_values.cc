#include "compiler/graph/wire_values.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/layout_rules.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kMaxRank = 64;
constexpr int kMaxInstructions = 1000;
// Of one expression: products of long sums grow without end.
constexpr size_t kMaxTerms = 64;
constexpr size_t kMaxFactors = 64;
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxTextName = 64;

absl::StatusOr<SymExpr> Apply(wire::SymOp op, const SymExpr& a,
                              const SymExpr& b) {
  switch (op) {
    case wire::SYM_OP_ADD:
      return a + b;
    case wire::SYM_OP_MUL:
      return a * b;
    case wire::SYM_OP_FLOORDIV:
    case wire::SYM_OP_MOD:
      if (b.Is(0)) return Malformed("expression divides by 0");
      return op == wire::SYM_OP_MOD ? Mod(a, b) : FloorDiv(a, b);
    case wire::SYM_OP_MIN:
      return Min(a, b);
    case wire::SYM_OP_MAX:
      return Max(a, b);
    default:  // an open enum of the wire
      return MakeError(
          ErrorReason::kUnsupportedOp,
          absl::StrCat("expression with operation ", static_cast<int>(op)));
  }
}

bool IsTooLong(const SymExpr& e) {
  if (e.is_constant()) return false;
  if (e.sum().terms.size() > kMaxTerms) return true;
  return std::any_of(e.sum().terms.begin(), e.sum().terms.end(),
                     [](const SymExpr::Term& term) {
                       return term.atoms.size() > kMaxFactors;
                     });
}

// What the first `count` instructions leave on the stack.
absl::StatusOr<std::vector<SymExpr>> RunCode(const wire::SymExpr& wire,
                                             int count, uint32_t num_symbols) {
  if (count > kMaxInstructions) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat("expression of ", count,
                     " instructions, expected at most ", kMaxInstructions));
  }
  std::vector<SymExpr> stack;
  for (int i = 0; i < count; ++i) {
    const wire::SymInstruction& step = wire.code(i);
    if (step.op() == wire::SYM_OP_CONSTANT) {
      stack.push_back(step.value());
    } else if (step.op() == wire::SYM_OP_SYMBOL) {
      if (step.value() < 0 || step.value() >= num_symbols) {
        return Malformed(absl::StrCat("symbol number ", step.value(),
                                      ", expected below ", num_symbols));
      }
      stack.push_back(SymExpr::Symbol(static_cast<uint32_t>(step.value())));
    } else {
      if (stack.size() < 2) return Malformed("expression lacks an operand");
      const SymExpr right = std::move(stack.back());
      stack.pop_back();
      ASSIGN_OR_RETURN(stack.back(), Apply(step.op(), stack.back(), right));
      if (IsTooLong(stack.back())) {
        return MakeError(ErrorReason::kTooLarge,
                         "expression of more than 64 terms or factors");
      }
    }
  }
  return stack;
}

absl::StatusOr<GuardOp> GuardOpOf(wire::SymOp op) {
  switch (op) {
    case wire::SYM_OP_EQ:
      return GuardOp::kEq;
    case wire::SYM_OP_NE:
      return GuardOp::kNe;
    case wire::SYM_OP_LT:
      return GuardOp::kLt;
    case wire::SYM_OP_LE:
      return GuardOp::kLe;
    default:  // an open enum of the wire
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat("condition that ends with operation ",
                                    static_cast<int>(op)));
  }
}

}  // namespace

absl::StatusOr<SymExpr> SymExprFromWire(const wire::SymExpr& wire,
                                        uint32_t num_symbols) {
  if (wire.code_size() == 0) return SymExpr(wire.value());
  ASSIGN_OR_RETURN(std::vector<SymExpr> stack,
                   RunCode(wire, wire.code_size(), num_symbols));
  if (stack.size() != 1) return Malformed("expression leaves several values");
  return std::move(stack.back());
}

absl::StatusOr<Guard> GuardFromWire(const wire::SymExpr& condition,
                                    uint32_t num_symbols) {
  const int last = condition.code_size() - 1;
  if (last < 0) {
    return MakeError(ErrorReason::kUnsupportedOp, "condition that is a number");
  }
  ASSIGN_OR_RETURN(const GuardOp op, GuardOpOf(condition.code(last).op()));
  ASSIGN_OR_RETURN(std::vector<SymExpr> sides,
                   RunCode(condition, last, num_symbols));
  if (sides.size() != 2) return Malformed("comparison without two sides");
  return Guard{op, std::move(sides[0]), std::move(sides[1]), ""};
}

absl::StatusOr<DType> DTypeOfWire(wire::DType dtype) {
  if (const std::optional<DType> known = DTypeFromWire(dtype);
      known.has_value()) {
    return *known;
  }
  if (dtype == wire::DTYPE_UNSPECIFIED || !wire::DType_IsValid(dtype)) {
    return Malformed(absl::StrCat("dtype number ", static_cast<int>(dtype)));
  }
  return MakeError(
      ErrorReason::kUnsupportedOp,
      absl::StrCat("dtype ",
                   absl::AsciiStrToLower(wire::DType_Name(dtype).substr(6))));
}

absl::StatusOr<TensorMeta> TensorMetaFromWire(const wire::TensorMeta& wire,
                                              uint32_t num_symbols) {
  TensorMeta meta;
  ASSIGN_OR_RETURN(meta.dtype, DTypeOfWire(wire.dtype()));
  if (wire.sizes_size() != wire.strides_size() ||
      wire.sizes_size() > kMaxRank) {
    return Malformed(absl::StrCat(wire.sizes_size(), " sizes and ",
                                  wire.strides_size(), " strides"));
  }
  for (int d = 0; d < wire.sizes_size(); ++d) {
    ASSIGN_OR_RETURN(SymExpr size, SymExprFromWire(wire.sizes(d), num_symbols));
    ASSIGN_OR_RETURN(SymExpr stride,
                     SymExprFromWire(wire.strides(d), num_symbols));
    if ((size.is_constant() && size.constant() < 0) ||
        (stride.is_constant() && stride.constant() < 0)) {
      return Malformed(absl::StrCat("size ", size.ToString(), " and stride ",
                                    stride.ToString(), ", expected 0 or more"));
    }
    meta.sizes.push_back(std::move(size));
    meta.strides.push_back(std::move(stride));
  }
  ASSIGN_OR_RETURN(meta.offset,
                   SymExprFromWire(wire.storage_offset(), num_symbols));
  return meta;
}

absl::Status CheckName(absl::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat("name '", absl::CHexEscape(name.substr(0, 40)), "...' of ",
                     name.size(), " bytes, expected at most ", kMaxNameBytes));
  }
  const bool clean = std::none_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (clean) return absl::OkStatus();
  return Malformed(absl::StrCat("name '", absl::CHexEscape(name.substr(0, 40)),
                                "' with a control character"));
}

std::string TextName(absl::string_view name) {
  std::string out(name.substr(0, kMaxTextName));
  for (char& c : out) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return out;
}

}  // namespace kiln

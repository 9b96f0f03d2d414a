#include "proto/base/sym_eval.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/graph.pb.h"

namespace kiln {
namespace {

// How an operation prints, and how many values it takes from the stack.
// Higher `precedence` binds tighter; 0 prints as a call.
struct SymOpRow {
  wire::SymOp op;
  int arity;
  int precedence;
  absl::string_view text;
};

constexpr int kAtom = 10;
constexpr SymOpRow kSymOps[] = {
    {wire::SYM_OP_UNSPECIFIED, -1, 0, ""},
    {wire::SYM_OP_CONSTANT, 0, kAtom, ""},
    {wire::SYM_OP_SYMBOL, 0, kAtom, ""},
    {wire::SYM_OP_ADD, 2, 4, " + "},
    {wire::SYM_OP_MUL, 2, 5, "*"},
    {wire::SYM_OP_FLOORDIV, 2, 0, "floordiv"},
    {wire::SYM_OP_MOD, 2, 0, "mod"},
    {wire::SYM_OP_MIN, 2, 0, "min"},
    {wire::SYM_OP_MAX, 2, 0, "max"},
    {wire::SYM_OP_EQ, 2, 3, " == "},
    {wire::SYM_OP_NE, 2, 3, " != "},
    {wire::SYM_OP_LT, 2, 3, " < "},
    {wire::SYM_OP_LE, 2, 3, " <= "},
    {wire::SYM_OP_AND, 2, 2, " and "},
    {wire::SYM_OP_OR, 2, 1, " or "},
    {wire::SYM_OP_NOT, 1, 0, "not"},
};

const SymOpRow* RowOf(int op) {
  if (op <= 0 || op >= static_cast<int>(std::size(kSymOps))) return nullptr;
  return &kSymOps[op];
}

// Python's floor division and modulo. `b` is neither 0 nor -1.
int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
int64_t FloorMod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

struct Applied {
  int64_t value = 0;
  bool exact = true;  // no overflow, no division by zero
};

Applied ApplyDivision(wire::SymOp op, int64_t a, int64_t b) {
  if (b == 0) return {0, false};
  if (op == wire::SYM_OP_MOD) return {b == -1 ? 0 : FloorMod(a, b)};
  if (b != -1) return {FloorDiv(a, b)};
  int64_t negated;
  const bool overflow = __builtin_sub_overflow(int64_t{0}, a, &negated);
  return {negated, !overflow};
}

Applied ApplyBinary(wire::SymOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case wire::SYM_OP_ADD: {
      const bool overflow = __builtin_add_overflow(a, b, &result);
      return {result, !overflow};
    }
    case wire::SYM_OP_MUL: {
      const bool overflow = __builtin_mul_overflow(a, b, &result);
      return {result, !overflow};
    }
    case wire::SYM_OP_FLOORDIV:
    case wire::SYM_OP_MOD:
      return ApplyDivision(op, a, b);
    case wire::SYM_OP_MIN:
      return {std::min(a, b)};
    case wire::SYM_OP_MAX:
      return {std::max(a, b)};
    case wire::SYM_OP_EQ:
      return {a == b};
    case wire::SYM_OP_NE:
      return {a != b};
    case wire::SYM_OP_LT:
      return {a < b};
    case wire::SYM_OP_LE:
      return {a <= b};
    case wire::SYM_OP_AND:
      return {a != 0 && b != 0};
    case wire::SYM_OP_OR:
      return {a != 0 || b != 0};
    default:  // not binary: FromWire lets none through to here
      return {0, false};
  }
}

struct TextPiece {
  std::string text;
  int precedence;
};

std::string Grouped(const TextPiece& piece, int at_least) {
  const bool call = piece.precedence == 0;
  if (call || piece.precedence >= at_least) return piece.text;
  return absl::StrCat("(", piece.text, ")");
}

void PrintStep(const SymOpRow& row, std::vector<TextPiece>& stack) {
  if (row.arity == 1) {
    stack.back() = {absl::StrCat(row.text, "(", stack.back().text, ")"), 0};
    return;
  }
  const TextPiece right = std::move(stack.back());
  stack.pop_back();
  TextPiece& left = stack.back();
  if (row.precedence == 0) {
    left = {absl::StrCat(row.text, "(", left.text, ", ", right.text, ")"), 0};
    return;
  }
  left = {absl::StrCat(Grouped(left, row.precedence), row.text,
                       Grouped(right, row.precedence + 1)),
          row.precedence};
}

// Runs a checked program. `refuse` is asked about each operation that has no
// 64-bit value, with its operands; true ends the run.
template <typename Code, typename Refuse>
int64_t Interpret(const Code& code, absl::Span<const int64_t> symbols,
                  const Refuse& refuse) {
  std::array<int64_t, SymProgram::kMaxDepth> stack;
  int top = 0;
  for (const auto& in : code) {
    if (in.op == wire::SYM_OP_CONSTANT) {
      stack[top++] = in.value;
    } else if (in.op == wire::SYM_OP_SYMBOL) {
      stack[top++] = symbols[in.value];
    } else if (in.op == wire::SYM_OP_NOT) {
      stack[top - 1] = stack[top - 1] == 0;
    } else {
      --top;
      const Applied applied = ApplyBinary(in.op, stack[top - 1], stack[top]);
      if (!applied.exact && refuse(in.op, stack[top - 1], stack[top])) return 0;
      stack[top - 1] = applied.value;
    }
  }
  return stack[0];
}

}  // namespace

SymProgram SymProgram::Constant(int64_t value) {
  SymProgram program;
  program.value_ = value;
  return program;
}

absl::StatusOr<SymProgram> SymProgram::FromWire(const wire::SymExpr& expr,
                                                int64_t symbol_count) {
  if (expr.code_size() == 0) return Constant(expr.value());
  if (expr.code_size() > kMaxInstructions) {
    return MakeError(ErrorReason::kTooLarge,
                     absl::StrCat("symbolic expression: ", expr.code_size(),
                                  " instructions, at most ", kMaxInstructions));
  }
  SymProgram program;
  int depth = 0;
  for (const wire::SymInstruction& in : expr.code()) {
    const SymOpRow* row = RowOf(in.op());
    if (row == nullptr) {
      return MakeError(ErrorReason::kMalformedGraph,
                       absl::StrCat("symbolic expression: operation ",
                                    static_cast<int>(in.op()), " is unknown"));
    }
    if (depth < row->arity) {
      return MakeError(
          ErrorReason::kMalformedGraph,
          absl::StrCat("symbolic expression: ", wire::SymOp_Name(in.op()),
                       " finds ", depth, " values, needs ", row->arity));
    }
    depth += row->arity == 0 ? 1 : 1 - row->arity;
    if (depth > kMaxDepth) {
      return MakeError(
          ErrorReason::kTooLarge,
          absl::StrCat("symbolic expression: stack deeper than ", kMaxDepth));
    }
    if (in.op() == wire::SYM_OP_SYMBOL) {
      if (in.value() < 0 || in.value() >= symbol_count) {
        return MakeError(ErrorReason::kMalformedGraph,
                         absl::StrCat("symbolic expression: symbol ",
                                      in.value(), " of ", symbol_count));
      }
      program.symbols_needed_ =
          std::max(program.symbols_needed_, in.value() + 1);
    }
    program.code_.push_back(
        {in.op(), row->arity == 0 ? in.value() : int64_t{0}});
  }
  if (depth != 1) {
    return MakeError(ErrorReason::kMalformedGraph,
                     absl::StrCat("symbolic expression: leaves ", depth,
                                  " values, must leave 1"));
  }
  // One spelling for a constant, so that equal values are equal programs.
  if (program.code_.size() == 1 &&
      program.code_[0].op == wire::SYM_OP_CONSTANT) {
    return Constant(program.code_[0].value);
  }
  return program;
}

int64_t SymProgram::Run(absl::Span<const int64_t> symbols) const {
  return Interpret(code_, symbols,
                   [](wire::SymOp, int64_t, int64_t) { return false; });
}

absl::StatusOr<int64_t> SymProgram::EvaluateChecked(
    absl::Span<const int64_t> symbols) const {
  // The text of a long one takes far longer than to run it.
  const auto subject = [this] {
    constexpr size_t kMostTold = 64;
    return code_.size() <= kMostTold
               ? absl::StrCat("symbolic expression ", ToText())
               : absl::StrCat("symbolic expression of ", code_.size(),
                              " instructions");
  };
  if (static_cast<int64_t>(symbols.size()) < symbols_needed_) {
    return absl::InvalidArgumentError(
        absl::StrCat(subject(), ": ", symbols.size(), " symbol values, needs ",
                     symbols_needed_));
  }
  if (code_.empty()) return value_;
  absl::Status fault;
  const int64_t value = Interpret(
      code_, symbols, [&](wire::SymOp op, int64_t left, int64_t right) {
        fault = absl::OutOfRangeError(
            absl::StrCat(subject(), ": ", wire::SymOp_Name(op), " of ", left,
                         " and ", right, " has no 64-bit value"));
        return true;
      });
  RETURN_IF_ERROR(fault);
  return value;
}

std::string SymProgram::ToText(absl::Span<const std::string> names) const {
  if (code_.empty()) return absl::StrCat(value_);
  std::vector<TextPiece> stack;
  for (const Instruction& in : code_) {
    if (in.op == wire::SYM_OP_CONSTANT) {
      stack.push_back({absl::StrCat(in.value), kAtom});
    } else if (in.op == wire::SYM_OP_SYMBOL) {
      const bool named = static_cast<size_t>(in.value) < names.size();
      stack.push_back(
          {named ? names[in.value] : absl::StrCat("s", in.value), kAtom});
    } else {
      PrintStep(*RowOf(in.op), stack);
    }
  }
  return stack.back().text;
}

wire::SymExpr SymProgram::ToWire() const {
  wire::SymExpr expr;
  if (code_.empty()) {
    expr.set_value(value_);
    return expr;
  }
  for (const Instruction& in : code_) {
    wire::SymInstruction* out = expr.add_code();
    out->set_op(in.op);
    out->set_value(in.value);
  }
  return expr;
}

std::string SymExprText(const wire::SymExpr& expr) {
  const absl::StatusOr<SymProgram> program =
      SymProgram::FromWire(expr, int64_t{1} << 32);
  return program.ok() ? program->ToText() : "(unsound expression)";
}

}  // namespace kiln

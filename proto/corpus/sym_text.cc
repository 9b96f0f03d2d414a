#include "proto/corpus/sym_text.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int64_t kMaxExponent = 16;
// Deep enough for anything PyTorch prints; keeps the stack bounded.
constexpr int kMaxDepth = 200;

struct Instruction {
  wire::SymOp op;
  int64_t value;
};
using Code = std::vector<Instruction>;

Code ConstantCode(int64_t value) { return {{wire::SYM_OP_CONSTANT, value}}; }

std::optional<int64_t> ConstantOf(const Code& code) {
  if (code.size() != 1 || code[0].op != wire::SYM_OP_CONSTANT) return {};
  return code[0].value;
}

int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// The value of `a op b`; empty when it has none in int64 (or none we fold).
std::optional<int64_t> Fold(wire::SymOp op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case wire::SYM_OP_ADD:
      return __builtin_add_overflow(a, b, &out) ? std::nullopt
                                                : std::optional(out);
    case wire::SYM_OP_MUL:
      return __builtin_mul_overflow(a, b, &out) ? std::nullopt
                                                : std::optional(out);
    case wire::SYM_OP_FLOORDIV:
      if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
      return FloorDiv(a, b);
    case wire::SYM_OP_MOD:
      if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
      return a - FloorDiv(a, b) * b;
    case wire::SYM_OP_MIN:
      return std::min(a, b);
    case wire::SYM_OP_MAX:
      return std::max(a, b);
    default:  // the others are not worth folding
      return std::nullopt;
  }
}

Code Combine(wire::SymOp op, Code left, Code right) {
  const std::optional<int64_t> a = ConstantOf(left);
  const std::optional<int64_t> b = ConstantOf(right);
  if (a.has_value() && b.has_value()) {
    const std::optional<int64_t> folded = Fold(op, *a, *b);
    if (folded.has_value()) return ConstantCode(*folded);
  }
  left.insert(left.end(), right.begin(), right.end());
  left.push_back({op, 0});
  return left;
}

bool IsNameStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

class Parser {
 public:
  Parser(absl::string_view text, SymbolNumber number_of)
      : text_(text), rest_(text), number_of_(number_of) {}

  absl::StatusOr<Code> Parse() {
    ASSIGN_OR_RETURN(Code code, Sum());
    SkipSpace();
    if (!rest_.empty()) return Malformed("an operator");
    return code;
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  bool Take(absl::string_view token) {
    SkipSpace();
    if (rest_.substr(0, token.size()) != token) return false;
    // "*" is not the first half of "**".
    if (token == "*" && rest_.substr(0, 2) == "**") return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  absl::Status Malformed(absl::string_view due) const {
    return MakeError(ErrorReason::kMalformedGraph,
                     absl::StrCat("expression \"", text_, "\": found \"", rest_,
                                  "\", expected ", due));
  }

  absl::StatusOr<Code> Sum() {
    if (++depth_ > kMaxDepth) return Malformed("less nesting");
    ASSIGN_OR_RETURN(Code left, Product());
    while (true) {
      if (Take("+")) {
        ASSIGN_OR_RETURN(Code right, Product());
        left = Combine(wire::SYM_OP_ADD, std::move(left), std::move(right));
      } else if (Take("-")) {
        ASSIGN_OR_RETURN(Code right, Product());
        left = Combine(wire::SYM_OP_ADD, std::move(left),
                       Negate(std::move(right)));
      } else {
        --depth_;
        return left;
      }
    }
  }

  static Code Negate(Code code) {
    return Combine(wire::SYM_OP_MUL, ConstantCode(-1), std::move(code));
  }

  absl::StatusOr<Code> Product() {
    ASSIGN_OR_RETURN(Code left, Unary());
    while (true) {
      wire::SymOp op;
      if (Take("//")) {
        op = wire::SYM_OP_FLOORDIV;
      } else if (Take("*")) {
        op = wire::SYM_OP_MUL;
      } else if (Take("%")) {
        op = wire::SYM_OP_MOD;
      } else if (Take("/")) {
        return Unsupported("true division");
      } else {
        return left;
      }
      ASSIGN_OR_RETURN(Code right, Unary());
      left = Combine(op, std::move(left), std::move(right));
    }
  }

  absl::StatusOr<Code> Unary() {
    if (!Take("-")) return Power();
    if (++depth_ > kMaxDepth) return Malformed("less nesting");
    ASSIGN_OR_RETURN(Code inner, Unary());
    --depth_;
    return Negate(std::move(inner));
  }

  absl::StatusOr<Code> Power() {
    ASSIGN_OR_RETURN(const Code base, Atom());
    if (!Take("**")) return base;
    ASSIGN_OR_RETURN(const Code exponent_code, Unary());
    const std::optional<int64_t> exponent = ConstantOf(exponent_code);
    if (!exponent.has_value() || *exponent < 0 || *exponent > kMaxExponent) {
      return Unsupported("a power other than a constant from 0 to 16");
    }
    Code product = ConstantCode(1);
    for (int64_t i = 0; i < *exponent; ++i) {
      product =
          i == 0 ? base : Combine(wire::SYM_OP_MUL, std::move(product), base);
    }
    return product;
  }

  absl::StatusOr<Code> Atom() {
    SkipSpace();
    if (Take("(")) {
      ASSIGN_OR_RETURN(Code inner, Sum());
      if (!Take(")")) return Malformed("\")\"");
      return inner;
    }
    if (rest_.empty()) return Malformed("a value");
    if (absl::ascii_isdigit(rest_.front())) return Number();
    if (!IsNameStart(rest_.front())) return Malformed("a value");
    size_t length = 0;
    while (length < rest_.size() && IsNamePart(rest_[length])) ++length;
    const absl::string_view name = rest_.substr(0, length);
    rest_.remove_prefix(length);
    if (Take("(")) return Call(name);
    ASSIGN_OR_RETURN(const int64_t number, number_of_(name));
    return Code{{wire::SYM_OP_SYMBOL, number}};
  }

  absl::StatusOr<Code> Number() {
    size_t length = 0;
    while (length < rest_.size() && absl::ascii_isdigit(rest_[length])) {
      ++length;
    }
    int64_t value = 0;
    if (!absl::SimpleAtoi(rest_.substr(0, length), &value)) {
      return Malformed("an integer of 64 bits");
    }
    rest_.remove_prefix(length);
    return ConstantCode(value);
  }

  absl::StatusOr<Code> Call(absl::string_view name) {
    std::vector<Code> args;
    do {
      ASSIGN_OR_RETURN(Code arg, Sum());
      args.push_back(std::move(arg));
    } while (Take(","));
    if (!Take(")")) return Malformed("\")\"");
    if (name == "Identity" && args.size() == 1) return args[0];
    return Apply(name, std::move(args));
  }

  absl::StatusOr<Code> Apply(absl::string_view name, std::vector<Code> args) {
    struct Row {
      absl::string_view name;
      wire::SymOp op;
      bool swapped;  // Gt(a, b) is Lt(b, a)
    };
    static constexpr Row kRows[] = {
        {"Mod", wire::SYM_OP_MOD, false},
        {"PythonMod", wire::SYM_OP_MOD, false},
        {"FloorDiv", wire::SYM_OP_FLOORDIV, false},
        {"CleanDiv", wire::SYM_OP_FLOORDIV, false},
        {"Eq", wire::SYM_OP_EQ, false},
        {"Ne", wire::SYM_OP_NE, false},
        {"Lt", wire::SYM_OP_LT, false},
        {"Le", wire::SYM_OP_LE, false},
        {"Gt", wire::SYM_OP_LT, true},
        {"Ge", wire::SYM_OP_LE, true},
        {"Min", wire::SYM_OP_MIN, false},
        {"Max", wire::SYM_OP_MAX, false},
    };
    for (const Row& row : kRows) {
      if (row.name != name) continue;
      const bool any_count =
          row.op == wire::SYM_OP_MIN || row.op == wire::SYM_OP_MAX;
      if (args.size() != 2 && !any_count) return Malformed("two arguments");
      if (row.swapped) std::swap(args[0], args[1]);
      Code all = std::move(args[0]);
      for (size_t i = 1; i < args.size(); ++i) {
        all = Combine(row.op, std::move(all), std::move(args[i]));
      }
      return all;
    }
    return Unsupported(name);
  }

  absl::Status Unsupported(absl::string_view what) const {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(what, " in expression \"", text_, "\""));
  }

  const absl::string_view text_;
  absl::string_view rest_;
  const SymbolNumber number_of_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<wire::SymExpr> ParseSymText(absl::string_view text,
                                           SymbolNumber number_of) {
  ASSIGN_OR_RETURN(const Code code, Parser(text, number_of).Parse());
  wire::SymExpr out;
  const std::optional<int64_t> constant = ConstantOf(code);
  if (constant.has_value()) {
    out.set_value(*constant);
    return out;
  }
  for (const Instruction& i : code) {
    wire::SymInstruction* added = out.add_code();
    added->set_op(i.op);
    added->set_value(i.value);
  }
  return out;
}

void VisitSymbolNames(absl::string_view text,
                      absl::FunctionRef<void(absl::string_view)> visit) {
  for (size_t i = 0; i < text.size();) {
    if (absl::ascii_isdigit(text[i])) {
      while (i < text.size() && absl::ascii_isdigit(text[i])) ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && IsNamePart(text[end])) ++end;
    if (end > i && (end == text.size() || text[end] != '(')) {
      visit(text.substr(i, end - i));
    }
    i = end > i ? end : i + 1;
  }
}

}  // namespace kiln

#ifndef KILN_PROTO_BASE_SYM_EVAL_H_
#define KILN_PROTO_BASE_SYM_EVAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln {

namespace wire {  // of proto/graph.pb.h
class SymExpr;
enum SymOp : int;
}  // namespace wire

// An integer expression over symbols, checked once and then evaluated often.
//
// Decides: that an expression from the wire is sound (stack discipline, known
// operations, symbols in range, bounded depth).
// Leaves alone: simplification and ranges (compiler/sym).
//
// A value: copy it freely. Const methods may run on many threads at once.
class SymProgram {
 public:
  // Most values an expression may have on its stack, and most instructions.
  // Both are far above what graphs need; they bound what a hostile message
  // can cost.
  static constexpr int kMaxDepth = 128;
  static constexpr int kMaxInstructions = 4096;

  // The constant zero.
  SymProgram() = default;

  static SymProgram Constant(int64_t value);

  // Checks `expr` once and for all. Symbols are numbers in [0, symbol_count).
  //
  // Errors:
  //   INVALID_ARGUMENT  MALFORMED_GRAPH  an unknown operation, an empty or
  //                     left-over stack, a symbol out of range
  //   OUT_OF_RANGE      TOO_LARGE        over kMaxDepth or kMaxInstructions
  static absl::StatusOr<SymProgram> FromWire(const wire::SymExpr& expr,
                                             int64_t symbol_count);

  // The value for `symbols` (at least as many as FromWire was told). Allocates
  // nothing. Arithmetic wraps around at 64 bits, and a division by zero gives
  // 0: for expressions whose symbols are known to be in their ranges.
  int64_t Evaluate(absl::Span<const int64_t> symbols) const {
    return code_.empty() ? value_ : Run(symbols);
  }

  // The same for symbols of unknown quality.
  //   INVALID_ARGUMENT  fewer symbols than the expression needs
  //   OUT_OF_RANGE      a division by zero, or a result beyond 64 bits
  absl::StatusOr<int64_t> EvaluateChecked(
      absl::Span<const int64_t> symbols) const;

  bool is_constant() const { return code_.empty(); }
  // One more than the highest symbol that is read; 0 for a constant.
  int64_t symbols_needed() const { return symbols_needed_; }

  // "4*s0 + 1", for people. `names` replaces s0, s1, ... where given.
  std::string ToText(absl::Span<const std::string> names = {}) const;

  // Back to the wire; FromWire(ToWire()) is the same program.
  wire::SymExpr ToWire() const;

  friend bool operator==(const SymProgram& a, const SymProgram& b) {
    return a.value_ == b.value_ && a.code_ == b.code_;
  }

 private:
  struct Instruction {
    wire::SymOp op;
    int64_t value;
    friend bool operator==(const Instruction& a, const Instruction& b) {
      return a.op == b.op && a.value == b.value;
    }
  };

  int64_t Run(absl::Span<const int64_t> symbols) const;

  int64_t value_ = 0;
  int64_t symbols_needed_ = 0;
  std::vector<Instruction> code_;  // empty: the constant value_
};

// The text of an expression that may be unsound, for messages about it.
std::string SymExprText(const wire::SymExpr& expr);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_SYM_EVAL_H_

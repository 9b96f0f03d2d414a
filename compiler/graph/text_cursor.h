#ifndef KILN_COMPILER_GRAPH_TEXT_CURSOR_H_
#define KILN_COMPILER_GRAPH_TEXT_CURSOR_H_

// How IR text is read: a place in it that moves on, and errors that say where.
// Blanks and newlines separate; a line that starts with `//` is a comment.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/sym/sym_text.h"

namespace kiln {

class TextCursor {
 public:
  // `text` outlives this.
  explicit TextCursor(absl::string_view text) : all_(text), rest_(text) {
    SkipSpace();
  }

  bool AtEnd() const { return rest_.empty(); }
  // Moves past `token` and the space after it, if it stands here.
  bool Take(absl::string_view token);
  // The same for a whole word: "in" is not at "into".
  bool TakeWord(absl::string_view word);
  absl::Status Expect(absl::string_view token);
  // Letters, digits, '_' and '.'; empty when there is none.
  absl::string_view PeekWord() const;
  absl::string_view TakeAnyWord();
  // What follows, for looking ahead.
  absl::string_view rest() const { return rest_; }

  absl::StatusOr<int64_t> TakeInteger();
  // A number with '.', 'e', inf or nan; nothing is taken when it is none.
  bool TakeFloat(double* value);
  absl::StatusOr<SymExpr> TakeSymExpr(VarOfName var_of);
  // "..." with \" and \\.
  absl::StatusOr<std::string> TakeString();
  // 0x and an even number of hex digits.
  absl::StatusOr<std::string> TakeHexBytes();

  // INVALID_ARGUMENT: "line 3: found 'x', due `due`".
  absl::Status Unexpected(absl::string_view due) const;

 private:
  void SkipSpace();

  absl::string_view all_;
  absl::string_view rest_;
};

// A float that reads back to the same bits, and is no integer: "1.0", "1e-05".
std::string FloatText(double value);
// In quotes.
std::string QuotedText(absl::string_view text);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_TEXT_CURSOR_H_

#ifndef KILN_COMPILER_LOOP_LINE_READER_H_
#define KILN_COMPILER_LOOP_LINE_READER_H_

// Reads one line of the text of loops and kernel plans: one statement, made of words
// and marks.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// A line and the position in it. After the first thing that is not as expected the
// line has failed: all later reads fail too and return zeros.
class LineReader {
 public:
  // `line` outlives this. `number` counts from 1.
  LineReader(absl::string_view line, size_t number);

  bool ok() const { return due_.empty(); }
  bool done() const { return rest_.empty(); }
  absl::string_view rest() const { return rest_; }

  // Moves past `mark` and the blanks after it, if it stands here.
  bool Take(absl::string_view mark);
  void Expect(absl::string_view mark);
  void ExpectEnd();
  // Letters, digits, and "_.+@%".
  std::string Word(absl::string_view due = "a word");
  std::string Quoted();  // "text", with C's escapes
  int64_t Int();
  double Float();
  Number NumberOf(DType dtype);
  SymExpr Expr();
  DimVector Dims();  // "[s0, 256]"
  DType Type();
  ScalarId Node();  // "t3"

  // The next word, without moving past it.
  absl::string_view PeekWord() const;
  void Fail(absl::string_view due) { FailAt(rest_, due); }
  // The same at a place that was passed already.
  void FailAt(absl::string_view place, absl::string_view due);

  // OK, or INVALID_ARGUMENT "line 3 column 7: found 'x', due a number".
  absl::Status status() const;

 private:
  void Skip();
  absl::string_view Token();  // up to the next space, comma or bracket

  absl::string_view line_, rest_;
  size_t number_;
  absl::string_view failed_at_;
  std::string due_;  // of the first failure; empty: none
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LINE_READER_H_

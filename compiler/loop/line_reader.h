#ifndef KILN_COMPILER_LOOP_LINE_READER_H_
#define KILN_COMPILER_LOOP_LINE_READER_H_

// How the text of loops and kernel plans is read: one statement a line, by
// words and marks.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// One line being read. The first thing that does not stand where it is due
// fails the line; everything that is read after it fails too and gives zeros.
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

  // What the next word is; nothing is taken.
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

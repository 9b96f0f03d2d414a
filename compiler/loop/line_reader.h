#ifndef KILN_COMPILER_LOOP_LINE_READER_H_
#define KILN_COMPILER_LOOP_LINE_READER_H_

// Reads one line of the text of loops and kernel plans. A line is one statement, made of
// words and marks.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// A line and a position in it. After the first error all reads return zeros or empty
// results.
class LineReader {
 public:
  // `line` outlives this. `number` counts from 1.
  LineReader(absl::string_view line, size_t number);

  bool ok() const { return expected_.empty(); }
  bool done() const { return rest_.empty(); }
  absl::string_view rest() const { return rest_; }

  // If `mark` is next, moves past it and the blanks after it, and returns true.
  bool Take(absl::string_view mark);
  void Expect(absl::string_view mark);
  void ExpectEnd();
  // A word of letters, digits, and "_.+@%".
  std::string Word(absl::string_view expected = "a word");
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
  // Records an error, unless there is one already: here, or at an earlier `place`.
  void Fail(absl::string_view expected) { FailAt(rest_, expected); }
  void FailAt(absl::string_view place, absl::string_view expected);

  // OK, or INVALID_ARGUMENT "line 3 column 7: found 'x', expected a number".
  absl::Status status() const;

 private:
  void Skip();
  absl::string_view Token();  // up to the next space, comma or bracket

  absl::string_view line_, rest_;
  size_t number_;
  absl::string_view failed_at_;
  std::string expected_;  // at the first error; empty: no error
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LINE_READER_H_

#ifndef KILN_PROTO_PLAN_TEXT_READER_H_
#define KILN_PROTO_PLAN_TEXT_READER_H_

// How the text of a LaunchPlan is read: by words and marks, with any blanks
// and newlines between them.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/graph.pb.h"

namespace kiln {

// A place in a text that moves on. The first thing that does not stand where
// it is due fails the text; everything read after it gives zeros.
class TextReader {
 public:
  // `text` outlives this.
  explicit TextReader(absl::string_view text);

  bool ok() const { return due_.empty(); }
  bool done() const { return rest_.empty(); }

  // Moves past `mark` if it stands here; as a whole word where it is one.
  bool Take(absl::string_view mark);
  void Expect(absl::string_view mark);
  // Letters, digits, "_.+".
  std::string Word(absl::string_view due);
  int64_t Int();
  uint64_t Unsigned();
  double Float();
  std::string String();  // in quotes, with C's escapes
  // Moves past "|" and one blank; Line() is then the rest of the line, as it
  // stands.
  bool TakeLineMark();
  std::string Line();
  // What SymExprText writes, to the same instructions.
  wire::SymExpr Expr() { return Binary(1); }

  // Whether a word with `mark` right behind it stands here.
  bool WordBefore(char mark) const;
  bool NextIs(char c) const { return !rest_.empty() && rest_[0] == c; }
  void Fail(absl::string_view due);
  // OK, or INVALID_ARGUMENT "line 3 column 7: found 'x', due a number".
  absl::Status status() const;

 private:
  absl::string_view PeekWord() const;
  void Move(size_t n);
  void SkipSpace();
  wire::SymExpr Binary(int precedence);
  wire::SymExpr Atom();
  wire::SymExpr Call(absl::string_view name);

  absl::string_view all_, rest_, failed_at_;
  std::string due_;
  int depth_ = 0;
};

}  // namespace kiln

#endif  // KILN_PROTO_PLAN_TEXT_READER_H_

#ifndef KILN_COMPILER_CODEGEN_C_WRITER_H_
#define KILN_COMPILER_CODEGEN_C_WRITER_H_

// Writes C-like text: one statement on each line, indented by two spaces for each
// enclosing block.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {

class CWriter {
 public:
  template <typename... Parts>
  void Line(const Parts&... parts) {
    text_.append(2 * depth_, ' ');
    absl::StrAppend(&text_, parts...);
    text_ += '\n';
  }
  // A line that begins a block: "for (...)", or nothing for a bare block.
  template <typename... Parts>
  void Open(const Parts&... parts) {
    Line(parts..., sizeof...(parts) == 0 ? "{" : " {");
    ++depth_;
  }
  void Close(absl::string_view after = "") {
    --depth_;
    Line("}", after);
  }
  // Between the two blocks of an if statement.
  void Else() {
    --depth_;
    Line("} else {");
    ++depth_;
  }
  // The text so far.
  const std::string& text() const { return text_; }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_C_WRITER_H_

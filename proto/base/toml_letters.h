#ifndef KILN_PROTO_BASE_TOML_LETTERS_H_
#define KILN_PROTO_BASE_TOML_LETTERS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// BAD_OPTION, naming `where` and the line, when TOML text has a letter beyond
// ASCII outside of strings and comments. TOML allows none there, and toml++ 3.3
// runs into undefined behaviour at most of them. Strings of several lines with
// escapes, and quoted keys behind a dot, are refused one too.
absl::Status CheckTomlLetters(absl::string_view toml, absl::string_view where);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_TOML_LETTERS_H_

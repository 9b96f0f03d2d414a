#ifndef KILN_CLIENT_COMPILECTL_ANSWER_H_
#define KILN_CLIENT_COMPILECTL_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"

namespace kiln {

enum class OutputFormat {
  kTable,  // for people
  kJson,   // for programs: one document, keys never change
};

// A table in columns of text: headings in capitals, two spaces between columns, no
// trailing spaces.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  // As many cells as headings.
  void Add(std::vector<std::string> cells);
  // The table; without rows it is `when_empty` ("no entries").
  std::string Text(absl::string_view when_empty) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

// The text of a document for `-o json`: indented by two spaces, with a newline at the
// end. Bytes that are not UTF-8 are replaced.
std::string JsonText(const nlohmann::ordered_json& document);

// "9c41d2": the first six digits of a key. "-" for none.
std::string ShortKey(absl::string_view key_bytes);
// All digits of a key.
std::string LongKey(absl::string_view key_bytes);

// "512 B", "31.4 KiB", "2.0 GiB".
std::string BytesText(uint64_t bytes);

// "0.4s", "3m12s", "5h07m", "12d". Negative counts as 0.
std::string AgeText(absl::Duration age);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_ANSWER_H_

#include "client/compilectl/answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace kiln {

Table::Table(std::vector<std::string> headings) {
  rows_.push_back(std::move(headings));
}

void Table::Add(std::vector<std::string> cells) {
  cells.resize(rows_[0].size());
  rows_.push_back(std::move(cells));
}

std::string Table::Text(absl::string_view when_empty) const {
  if (rows_.size() == 1) return absl::StrCat(when_empty, "\n");
  std::vector<size_t> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      absl::StrAppend(&line, row[c],
                      std::string(widths[c] - row[c].size() + 2, ' '));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string JsonText(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', /*ensure_ascii=*/false,
                       nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string ShortKey(absl::string_view key_bytes) {
  if (key_bytes.empty()) return "-";
  return LongKey(key_bytes).substr(0, 6);
}

std::string LongKey(absl::string_view key_bytes) {
  return absl::BytesToHexString(key_bytes);
}

std::string BytesText(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  auto scaled = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (scaled < 1024) break;
    scaled /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", scaled, unit);
}

std::string AgeText(absl::Duration age) {
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(age));
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return absl::StrFormat("%.1fs", seconds);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  if (whole < 48 * 3600) {
    return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
  }
  return absl::StrFormat("%dd", whole / (24 * 3600));
}

}  // namespace kiln

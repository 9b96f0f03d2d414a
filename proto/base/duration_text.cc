#include "proto/base/duration_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace kiln {

bool ParseDurationText(absl::string_view text, absl::Duration* duration) {
  absl::string_view rest = text;
  absl::Duration days;
  const size_t number = text.find_first_not_of("0123456789.");
  if (number != absl::string_view::npos && text[number] == 'd') {
    double count = 0;
    if (!absl::SimpleAtod(text.substr(0, number), &count)) return false;
    days = absl::Hours(24) * count;
    rest = text.substr(number + 1);
    if (rest.empty()) rest = "0";
    // "1d-1h" is no way to say a time, and "1dinf" none at all.
    if (!absl::ascii_isdigit(static_cast<unsigned char>(rest.front())))
      return false;
  }
  absl::Duration parsed;
  if (!absl::ParseDuration(rest, &parsed)) return false;
  *duration = days + parsed;
  return true;
}

}  // namespace kiln

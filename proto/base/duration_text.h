#ifndef KILN_PROTO_BASE_DURATION_TEXT_H_
#define KILN_PROTO_BASE_DURATION_TEXT_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln {

// Reads "90s", "1h30m" and what else Abseil reads, and days of 24 hours before
// that: "14d", "0.5d", "1d12h". False, and nothing is set, for any other text.
bool ParseDurationText(absl::string_view text, absl::Duration* duration);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_DURATION_TEXT_H_

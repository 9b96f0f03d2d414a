#ifndef KILN_TESTS_COMPILER_SCHEDULE_PLAN_TEXT_CHECK_H_
#define KILN_TESTS_COMPILER_SCHEDULE_PLAN_TEXT_CHECK_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// Expects the text of a kernel plan to be read, to keep all rules, and to be printed as
// it was.
void ExpectReadsBack(const std::string& text);

// Expects the text to be read, and its plan to break the rule of that number ("K5").
void ExpectBreaks(absl::string_view rule, const std::string& text);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_SCHEDULE_PLAN_TEXT_CHECK_H_

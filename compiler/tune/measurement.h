#ifndef KILN_COMPILER_TUNE_MEASUREMENT_H_
#define KILN_COMPILER_TUNE_MEASUREMENT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

struct MeasureOptions {
  // In the words of the family: of kernels KernelConfig's text, of library calls
  // the library's names. Empty: what is worth measuring.
  std::vector<std::string> choices;
  int repeats = 0;  // of each choice; 0: kUsualRepeats
};

inline constexpr int kUsualRepeats = 21;

struct Measurement {
  std::string key;
  std::string choice;  // the winner
  std::vector<std::string> choices;
  std::vector<double> seconds;  // medians, one a choice
};

// Times each choice, which must not be none. The winner is the first within 2% of
// the best in the order of `choices`, so that noise does not move it from run to
// run; the first of all if the best saves no more than `least_saved` seconds.
//
// Errors: of `seconds_of`, with the key and the choice in front.
absl::StatusOr<Measurement> MeasureChoices(
    absl::string_view key, const std::vector<std::string>& choices,
    absl::FunctionRef<absl::StatusOr<double>(size_t)> seconds_of,
    double least_saved = 0);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASUREMENT_H_

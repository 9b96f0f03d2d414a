#ifndef KILN_COMPILER_TUNE_MEASUREMENT_H_
#define KILN_COMPILER_TUNE_MEASUREMENT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

struct MeasureOptions {
  // What to time: for a kernel the texts of its configurations (KernelConfig), for a
  // library call the library's names of algorithms. Empty: whatever is worth measuring.
  std::vector<std::string> choices;
  int repeats = 0;  // runs of each choice; 0: kUsualRepeats
};

inline constexpr int kUsualRepeats = 21;

struct Measurement {
  std::string key;
  std::string choice;  // the winner
  std::vector<std::string> choices;
  std::vector<double> seconds;  // the median of each choice
};

// Times every choice and picks the winner. `choices` must not be empty.
//
// The winner is the first choice that is within 2% of the fastest, so that noise does
// not change it from run to run. If the fastest saves at most `least_saved` seconds
// over the first choice, the first choice wins.
//
// Errors: those of `seconds_of`, prefixed with the key and the choice.
absl::StatusOr<Measurement> MeasureChoices(
    absl::string_view key, const std::vector<std::string>& choices,
    absl::FunctionRef<absl::StatusOr<double>(size_t)> seconds_of,
    double least_saved = 0);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASUREMENT_H_

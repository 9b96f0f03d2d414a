#include "compiler/tune/measurement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/tune/stopwatch.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<Measurement> MeasureChoices(
    absl::string_view key, const std::vector<std::string>& choices,
    absl::FunctionRef<absl::StatusOr<double>(size_t)> seconds_of,
    double least_saved) {
  Measurement out;
  out.key = std::string(key);
  out.choices = choices;
  for (size_t i = 0; i < choices.size(); ++i) {
    const absl::StatusOr<double> seconds = seconds_of(i);
    if (!seconds.ok()) {
      return Annotate(seconds.status(),
                      absl::StrCat("measure ", key, " as ", choices[i]));
    }
    out.seconds.push_back(*seconds);
  }
  const double best = *std::min_element(out.seconds.begin(), out.seconds.end());
  if (out.seconds[0] <= best + least_saved) out.choice = choices[0];
  for (size_t i = 0; i < choices.size() && out.choice.empty(); ++i)
    if (out.seconds[i] <= best * kTuningTie) out.choice = choices[i];
  return out;
}

}  // namespace kiln

#include "cache/tuning_match.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/tuned_line.h"

namespace kiln {
namespace {

absl::string_view OrNone(absl::string_view choice) {
  return choice.empty() ? "(none)" : choice;
}

}  // namespace

bool HasChoice(absl::string_view line) {
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos) return false;
  absl::string_view choice = line.substr(space + 1);
  absl::ConsumePrefix(&choice, kPinnedDecision);
  return !choice.empty();
}

absl::string_view ChoiceFor(absl::string_view key,
                            const TuningDecisions& decisions) {
  const auto found = std::lower_bound(
      decisions.begin(), decisions.end(), key,
      [](const wire::TuningDecision& decision, absl::string_view wanted) {
        return decision.key() < wanted;
      });
  if (found == decisions.end() || found->key() != key) return "";
  return found->choice();
}

std::string TuningDifference(absl::string_view line,
                             const TuningDecisions& decisions) {
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos) {
    return absl::StrCat("`", line, "`: no key and choice");
  }
  const absl::string_view key = line.substr(0, space);
  const absl::string_view used = line.substr(space + 1);
  if (absl::StartsWith(used, kPinnedDecision)) return "";
  const absl::string_view now = ChoiceFor(key, decisions);
  if (used == now) return "";
  return absl::StrCat(key, ": ", OrNone(now), " against ", OrNone(used));
}

}  // namespace kiln

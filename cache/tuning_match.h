#ifndef KILN_CACHE_TUNING_MATCH_H_
#define KILN_CACHE_TUNING_MATCH_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/tuning_cache.h"

namespace kiln {

// Tuning decisions stand with entries, as guards do, and not in the key: a key
// is computed before anything is compiled, when nobody knows yet which keys of
// the tuning table a graph meets. Were all decisions for a target in the key,
// one more measurement would make every entry of that target unreachable.
//
// So a plan names every tuning key that it looked up, whether a decision was
// there or not (CompilePlan.tuned); an entry keeps that list, and is served only
// while each of its keys has the decision that it had then. Which keys are looked
// up follows from the graph, target and options alone, never from a decision.
// Hence equal (key, hint class, decisions in force) find an equal list, and
// equal bytes. A decision for a row that an entry does not
// name leaves it alone; one that is taken back makes the old entry good again.
//
// With the option `deterministic` a plan keeps the decisions of its first compile:
// a "=" stands in front of its choices, and such a line holds whatever is decided
// later.

// Is each line of `tuned`, "KEY CHOICE" or "KEY ", what `decisions` say now, or
// kept, "KEY =CHOICE"? A line without a space is of no version that we know: the
// entry is not served.
template <typename Lines>
bool TuningHolds(const Lines& tuned, const TuningDecisions& decisions);

// Whether a line has a decision.
bool HasChoice(absl::string_view line);

// What is in force for the tuning key: its choice, or empty.
absl::string_view ChoiceFor(absl::string_view key,
                            const TuningDecisions& decisions);

// Why an entry with the line is not served: "reduce/...: cpu rows
// accumulators 4 against (none)"; empty when it holds.
std::string TuningDifference(absl::string_view line,
                             const TuningDecisions& decisions);

template <typename Lines>
bool TuningHolds(const Lines& tuned, const TuningDecisions& decisions) {
  for (const absl::string_view line : tuned) {
    if (!TuningDifference(line, decisions).empty()) return false;
  }
  return true;
}

}  // namespace kiln

#endif  // KILN_CACHE_TUNING_MATCH_H_

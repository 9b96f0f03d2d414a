#ifndef KILN_CACHE_GUARD_MATCH_H_
#define KILN_CACHE_GUARD_MATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/guard.pb.h"

namespace kiln {

// Do these values (canonical symbols, in order) satisfy every guard? A guard
// that cannot be evaluated - unsound, a symbol without a value, a division by
// zero - does not hold: the entry is not served, and that is always right.
bool GuardsHold(const wire::GuardSet& guards, absl::Span<const int64_t> values);

// The guards that do not hold, as a set: what a caller whose values fail
// forbids when it asks again.
wire::GuardSet GuardsBroken(const wire::GuardSet& guards,
                            absl::Span<const int64_t> values);

// "s0 <= 16 (pad: size of dim 1)", one a guard, for people.
std::vector<std::string> GuardTexts(const wire::GuardSet& guards);

}  // namespace kiln

#endif  // KILN_CACHE_GUARD_MATCH_H_

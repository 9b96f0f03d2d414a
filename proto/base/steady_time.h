#ifndef KILN_PROTO_BASE_STEADY_TIME_H_
#define KILN_PROTO_BASE_STEADY_TIME_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace kiln {

// A moment on the machine's steady clock, which nobody sets: what deadlines and
// pauses are measured by. Worthless in another process.
using SteadyTime = std::chrono::steady_clock::time_point;

inline SteadyTime SteadyNow() { return std::chrono::steady_clock::now(); }

// `moment` + `by`. A year is for ever; more would overflow the clock.
inline SteadyTime After(SteadyTime moment, absl::Duration by) {
  return moment +
         absl::ToChronoNanoseconds(std::min(by, absl::Hours(24 * 365)));
}

// No deadline.
inline constexpr SteadyTime kNever = SteadyTime::max();

inline SteadyTime SteadyIn(absl::Duration by) { return After(SteadyNow(), by); }

inline absl::Duration Between(SteadyTime from, SteadyTime to) {
  return absl::FromChrono(to - from);
}
inline absl::Duration Since(SteadyTime moment) {
  return Between(moment, SteadyNow());
}

// Zero when the deadline has passed.
inline absl::Duration TimeLeft(SteadyTime deadline) {
  return std::max(absl::FromChrono(deadline - SteadyNow()),
                  absl::ZeroDuration());
}

}  // namespace kiln

#endif  // KILN_PROTO_BASE_STEADY_TIME_H_

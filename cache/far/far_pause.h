#ifndef KILN_CACHE_FAR_FAR_PAUSE_H_
#define KILN_CACHE_FAR_FAR_PAUSE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kiln {

// How long a silent server of a far store is left alone: what a caller whose server
// is gone may lose is one wait in so much.
inline constexpr absl::Duration kFarPause = absl::Seconds(1);

// With less time than this a server is not to blame for its silence.
inline constexpr absl::Duration kFairTime = absl::Milliseconds(20);

// UNAVAILABLE STORAGE of a call during a pause, which `failure` began: its message
// names the server.
absl::Status LeftAlone(const absl::Status& failure);

// Whether an error is one of LeftAlone: nothing was asked.
bool IsPause(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_PAUSE_H_

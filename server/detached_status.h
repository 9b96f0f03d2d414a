#ifndef KILN_SERVER_DETACHED_STATUS_H_
#define KILN_SERVER_DETACHED_STATUS_H_

#include "absl/status/status.h"

namespace kiln {

// A copy that shares nothing with `status`, to hand to another thread. Copies
// share one heap object, counted inside Abseil's library, where
// ThreadSanitizer does not see it and takes the last owner's end for a race.
absl::Status Detached(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_SERVER_DETACHED_STATUS_H_

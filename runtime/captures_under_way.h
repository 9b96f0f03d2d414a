#ifndef KILN_RUNTIME_CAPTURES_UNDER_WAY_H_
#define KILN_RUNTIME_CAPTURES_UNDER_WAY_H_

#include "absl/functional/function_ref.h"

namespace kiln {

// While one is alive, work is being captured somewhere in this process. To wait
// for a whole device then would break the capture, whichever thread waits. Made
// by whoever records; may be nested, and ended by another thread.
class CaptureUnderWay {
 public:
  // Waits for work that DoOutsideCaptures has begun.
  CaptureUnderWay();
  ~CaptureUnderWay();
  CaptureUnderWay(const CaptureUnderWay&) = delete;
  CaptureUnderWay& operator=(const CaptureUnderWay&) = delete;
};

// Does `work`, unless a capture is under way; whether it did. Captures that
// others begin wait for its end, so it may begin none. Thread-safe.
bool DoOutsideCaptures(absl::FunctionRef<void()> work);

}  // namespace kiln

#endif  // KILN_RUNTIME_CAPTURES_UNDER_WAY_H_

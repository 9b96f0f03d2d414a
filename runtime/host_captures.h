#ifndef KILN_RUNTIME_HOST_CAPTURES_H_
#define KILN_RUNTIME_HOST_CAPTURES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "runtime/device.h"

namespace kiln {

// Captures of a device whose work is functions of the host, done when they are
// put on a stream: what Device promises of captures, so that all that stands
// around them is tested without a GPU. Thread-safe.
class HostCaptures {
 public:
  using Work = std::function<absl::Status()>;

  // What a marker holds: the capture, and how much of each of its streams.
  struct Point {
    Stream origin = nullptr;  // null: of no capture
    int64_t capture = 0;
    std::map<Stream, int64_t> done;
  };

  // See Device.
  absl::Status Begin(Stream stream) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::unique_ptr<CapturedGraph>> End(Stream stream)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool Has(Stream stream) const ABSL_LOCKS_EXCLUDED(mu_);

  // Does `work`, or keeps it where `stream` is captured.
  absl::Status Do(Stream stream, const Work& work) ABSL_LOCKS_EXCLUDED(mu_);

  // OK, or what a captured stream answers to a call that waits; the capture is
  // broken then. `call` names it.
  absl::Status AllowWait(Stream stream, absl::string_view call)
      ABSL_LOCKS_EXCLUDED(mu_);

  Point PointOf(Stream stream) const ABSL_LOCKS_EXCLUDED(mu_);
  void Wait(const Point& point, Stream stream) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Capture {
    int64_t number = 0;
    std::vector<Work> work;
    std::string broken_by;  // empty: whole
    // Of each stream: how much of every stream comes before what is next on it.
    std::map<Stream, std::map<Stream, int64_t>> clocks;
  };

  // The capture that `stream` belongs to, or null; with its origin.
  const std::pair<const Stream, Capture>* Find(Stream stream) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Capture* FindCapture(Stream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<int> open_ = 0;  // captures
  mutable Mutex mu_;
  std::map<Stream, Capture> captures_ ABSL_GUARDED_BY(mu_);  // by origin
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_HOST_CAPTURES_H_

#ifndef KILN_RUNTIME_PLAN_GRAPHS_CALL_ORDER_H_
#define KILN_RUNTIME_PLAN_GRAPHS_CALL_ORDER_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/device.h"

namespace kiln {

// Has the calls of several streams run one after the other on the device, since
// they use the same memory. A stream may go as soon as its call has returned:
// from then on a mark behind the call stands for it. The default stream never
// goes, and is marked only when another stream comes. One thread at a time.
class CallOrder {
 public:
  // `device` and the stream `own` outlive this.
  static absl::StatusOr<std::unique_ptr<CallOrder>> Make(Device& device,
                                                         Stream own);

  // What is put on `stream` from here on runs after all calls before.
  absl::Status Begin(Stream stream);
  // The call has put on `stream` what it had to, also where it has failed.
  absl::Status End(Stream stream);

  // Returns when the device is done with all calls.
  absl::Status Wait();

 private:
  CallOrder(Device& device, Stream own, std::unique_ptr<Marker> last)
      : device_(device), own_(own), last_(std::move(last)) {}

  // Has `stream` wait for the last call.
  absl::Status WaitOn(Stream stream);

  Device& device_;
  const Stream own_;
  const std::unique_ptr<Marker> last_;  // behind the last call
  std::optional<Stream> stream_;        // of the last call
  bool is_idle_ = true;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_CALL_ORDER_H_

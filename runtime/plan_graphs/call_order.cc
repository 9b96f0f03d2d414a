#include "runtime/plan_graphs/call_order.h"

#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<std::unique_ptr<CallOrder>> CallOrder::Make(Device& device,
                                                           Stream own) {
  ASSIGN_OR_RETURN(std::unique_ptr<Marker> last, device.MakeMarker());
  return std::unique_ptr<CallOrder>(
      new CallOrder(device, own, std::move(last)));
}

absl::Status CallOrder::Begin(Stream stream) {
  is_idle_ = false;
  if (stream_ == stream) return absl::OkStatus();
  RETURN_IF_ERROR(WaitOn(stream));
  stream_ = stream;
  return absl::OkStatus();
}

absl::Status CallOrder::End(Stream stream) {
  return stream == nullptr ? absl::OkStatus() : last_->Record(stream);
}

absl::Status CallOrder::WaitOn(Stream stream) {
  if (stream_ == Stream{nullptr}) RETURN_IF_ERROR(last_->Record(nullptr));
  return last_->Wait(stream);
}

absl::Status CallOrder::Wait() {
  if (is_idle_) return absl::OkStatus();
  // Not on the last call's stream, which may be gone.
  RETURN_IF_ERROR(WaitOn(own_));
  RETURN_IF_ERROR(device_.Synchronize(own_));
  is_idle_ = true;
  return absl::OkStatus();
}

}  // namespace kiln

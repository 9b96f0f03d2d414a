#include "runtime/plan_graphs/input_copies.h"

#include <cstdint>

#include "proto/base/status.h"

namespace kiln {
namespace {

// Bytes between elements that are copied with them, so that an input goes with the
// launch of all. Too low: inputs wait for a launch each, which takes a host some
// microseconds. Too high: a GPU copies longer than that for nothing.
constexpr int64_t kMostGapBytes = int64_t{1} << 20;

}  // namespace

Tensor WithoutRepeats(const Tensor& tensor) {
  Tensor once = tensor;
  once.owner.reset();
  for (size_t d = 0; d < once.sizes.size(); ++d) {
    if (once.strides[d] == 0 && once.sizes[d] > 1) once.sizes[d] = 1;
  }
  return once;
}

int64_t SpannedBytes(const Tensor& tensor) {
  if (NumElements(tensor.sizes) == 0) return 0;
  int64_t last = 0;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    last += (tensor.sizes[d] - 1) * tensor.strides[d];
  }
  return (last + 1) * SizeInBytes(tensor.dtype);
}

void InputCopies::Add(int input, Tensor to) {
  const int64_t bytes = NumElements(to.sizes) * SizeInBytes(to.dtype);
  if (bytes == 0) return;
  const int64_t spanned = SpannedBytes(to);
  if (spanned - bytes > kMostGapBytes) {
    strided_.push_back({input, std::move(to)});
    return;
  }
  runs_.push_back(input);
  copies_.push_back({nullptr, to.data, spanned});
}

absl::Status InputCopies::Put(absl::FunctionRef<const void*(int input)> address,
                              Stream stream) {
  for (size_t i = 0; i < copies_.size(); ++i) {
    copies_[i].from = address(runs_[i]);
  }
  if (!copies_.empty()) {
    RETURN_IF_ERROR(device_->CopyAll(copies_, stream));
  }
  for (const Slot& slot : strided_) {
    const StridedView to = {slot.to.data, SizeInBytes(slot.to.dtype),
                            slot.to.sizes, slot.to.strides};
    StridedView from = to;
    from.data = const_cast<void*>(address(slot.input));
    RETURN_IF_ERROR(device_->Copy(from, to, stream));
  }
  return absl::OkStatus();
}

}  // namespace kiln

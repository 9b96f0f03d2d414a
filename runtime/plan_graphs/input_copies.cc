#include "runtime/plan_graphs/input_copies.h"

#include <algorithm>
#include <cstdint>

#include "proto/base/status.h"

namespace kiln {
namespace {

// Whether the elements lie side by side, in whatever order.
bool IsRun(const Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // strides with their sizes
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] != 1) {
      dims.emplace_back(tensor.strides[d], tensor.sizes[d]);
    }
  }
  std::sort(dims.begin(), dims.end());
  int64_t elements = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != elements) return false;
    elements *= size;
  }
  return true;
}

}  // namespace

Tensor WithoutRepeats(const Tensor& tensor) {
  Tensor once = tensor;
  once.owner.reset();
  for (size_t d = 0; d < once.sizes.size(); ++d) {
    if (once.strides[d] == 0 && once.sizes[d] > 1) once.sizes[d] = 1;
  }
  return once;
}

void InputCopies::Add(int input, Tensor to) {
  const int64_t elements = NumElements(to.sizes);
  if (elements == 0) return;
  if (!IsRun(to)) {
    strided_.push_back({input, std::move(to)});
    return;
  }
  runs_.push_back(input);
  copies_.push_back({nullptr, to.data, elements * SizeInBytes(to.dtype)});
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

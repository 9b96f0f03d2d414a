#ifndef KILN_RUNTIME_INPUT_VIEW_H_
#define KILN_RUNTIME_INPUT_VIEW_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "runtime/tensor.h"

namespace kiln {

// One input of a call, as its caller keeps it: the one form in which guards and
// runs see inputs. Nothing is copied but numbers, since a call may have hundreds
// of inputs and a few nanoseconds for each; so no member has a value of its own,
// and who makes one sets them all. On the device that runs. Good as long as what
// it was made of.
struct InputView {
  bool is_tensor;
  DType dtype;
  int32_t rank;
  void* data;              // the first element
  const int64_t* sizes;    // `rank` of them
  const int64_t* strides;  // in elements, likewise
  int64_t number;          // an integer's value; a tensor's storage_offset
  // Knows owner and storage. Null: the caller keeps the memory alive, which
  // aliases nothing else.
  const Tensor* tensor;
};

inline InputView ViewOf(const InputValue& input) {
  InputView view = {};
  const auto* tensor = std::get_if<Tensor>(&input);
  if (tensor == nullptr) {
    view.number = std::get<int64_t>(input);
    return view;
  }
  view.is_tensor = true;
  view.dtype = tensor->dtype;
  view.rank = static_cast<int32_t>(tensor->sizes.size());
  view.data = tensor->data;
  view.sizes = tensor->sizes.data();
  view.strides = tensor->strides.data();
  view.number = tensor->storage_offset;
  view.tensor = tensor;
  return view;
}

// Each has as many strides as sizes. `inputs` must outlive the result.
inline std::vector<InputView> ViewsOf(absl::Span<const InputValue> inputs) {
  std::vector<InputView> views;
  views.reserve(inputs.size());
  for (const InputValue& input : inputs) views.push_back(ViewOf(input));
  return views;
}

}  // namespace kiln

#endif  // KILN_RUNTIME_INPUT_VIEW_H_

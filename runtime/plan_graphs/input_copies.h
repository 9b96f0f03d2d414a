#ifndef KILN_RUNTIME_PLAN_GRAPHS_INPUT_COPIES_H_
#define KILN_RUNTIME_PLAN_GRAPHS_INPUT_COPIES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/device.h"
#include "runtime/tensor.h"

namespace kiln {

// The same memory without an owner and without its repeats: sizes of 1 where a
// stride is 0.
Tensor WithoutRepeats(const Tensor& tensor);

// Bytes from the first element to the end of the last.
int64_t SpannedBytes(const Tensor& tensor);

// Copies a call's inputs to where a graph has them, in the form that they had when
// it was recorded: at once (Device::CopyAll), each with what lies between its
// elements; one with more than a mebibyte between them for itself. One thread at a
// time.
class InputCopies {
 public:
  explicit InputCopies(std::shared_ptr<Device> device)
      : device_(std::move(device)) {}

  // `to`: where `input` goes, with its sizes and strides; no owner. All bytes that
  // it spans are this copy's.
  void Add(int input, Tensor to);

  // Puts them on `stream`. `address` gives an input's first element.
  absl::Status Put(absl::FunctionRef<const void*(int input)> address,
                   Stream stream);

 private:
  struct Slot {
    int input = 0;
    Tensor to;
  };

  std::shared_ptr<Device> device_;
  std::vector<int> runs_;  // the inputs of `copies_`
  std::vector<DenseCopy> copies_;
  std::vector<Slot> strided_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_INPUT_COPIES_H_

#ifndef KILN_CLIENT_CORPUS_RUNNER_DEVICE_TENSORS_H_
#define KILN_CLIENT_CORPUS_RUNNER_DEVICE_TENSORS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/corpus/corpus_case.h"
#include "proto/corpus/corpus_tensor.h"
#include "runtime/device.h"
#include "runtime/tensor.h"

namespace kiln {

// A copy of `tensor` in the device's memory, with the same strides and storage offset.
// The copy owns its memory and must not outlive the device. RESOURCE_EXHAUSTED if there
// is too little memory.
absl::StatusOr<Tensor> CopyToDevice(Device& device, const CorpusTensor& tensor);

// A tensor's elements on the host, under the tensor's own strides: `storage`
// starts at its first element.
struct HostCopy {
  TensorLayout layout;
  std::vector<char> storage;
};

// Waits for the device's default stream.
absl::StatusOr<HostCopy> CopyToHost(Device& device, const Tensor& tensor);

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_DEVICE_TENSORS_H_

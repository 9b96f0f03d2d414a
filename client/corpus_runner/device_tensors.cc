#include "client/corpus_runner/device_tensors.h"

#include <algorithm>
#include <utility>

#include "proto/base/status.h"

namespace kiln {
namespace {

absl::StatusOr<std::shared_ptr<void>> Allocate(Device& device, int64_t bytes) {
  Allocator* const allocator = &device.allocator();
  ASSIGN_OR_RETURN(void* const memory, allocator->Allocate(bytes, nullptr));
  return std::shared_ptr<void>(memory, [allocator, bytes](void* pointer) {
    allocator->Free(pointer, bytes, nullptr);
  });
}

}  // namespace

absl::StatusOr<Tensor> CopyToDevice(Device& device,
                                    const CorpusTensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.storage.size());
  const TensorLayout& layout = tensor.layout;
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                   Allocate(device, std::max<int64_t>(bytes, 1)));
  if (bytes > 0) {
    RETURN_IF_ERROR(
        device.Upload(tensor.storage.data(), memory.get(), bytes, nullptr));
  }
  Tensor out;
  out.data = static_cast<char*>(memory.get()) +
             layout.storage_offset * SizeInBytes(layout.dtype);
  out.dtype = layout.dtype;
  out.sizes.assign(layout.sizes.begin(), layout.sizes.end());
  out.strides.assign(layout.strides.begin(), layout.strides.end());
  out.storage_offset = layout.storage_offset;
  out.device = device.traits().kind;
  out.device_ordinal = device.traits().ordinal;
  out.storage = memory.get();
  out.owner = std::move(memory);
  return out;
}

absl::StatusOr<HostCopy> CopyToHost(Device& device, const Tensor& tensor) {
  HostCopy out;
  out.layout.dtype = tensor.dtype;
  out.layout.sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  out.layout.strides.assign(tensor.strides.begin(), tensor.strides.end());
  out.storage.resize(StorageElements(out.layout) * SizeInBytes(tensor.dtype));
  RETURN_IF_ERROR(device.Synchronize(nullptr));
  if (!out.storage.empty()) {
    RETURN_IF_ERROR(device.Download(tensor.data, out.storage.data(),
                                    static_cast<int64_t>(out.storage.size()),
                                    nullptr));
  }
  return out;
}

}  // namespace kiln

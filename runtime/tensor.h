#ifndef KILN_RUNTIME_TENSOR_H_
#define KILN_RUNTIME_TENSOR_H_

#include <cstdint>
#include <memory>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "proto/base/dtype.h"
#include "runtime/device.h"

// What a caller hands to an Executor and gets back from it.

namespace kiln {

// Sizes or strides. Five covers every image tensor without an allocation.
using Dims = absl::InlinedVector<int64_t, 5>;

// A strided window on memory of one device. A value: copying it shares the
// memory. Knows nothing of gradients, views' history or frameworks.
struct Tensor {
  void* data = nullptr;  // the first element, storage_offset applied
  DType dtype = DType::kFloat32;
  Dims sizes;
  Dims strides;                // in elements, as many as sizes
  int64_t storage_offset = 0;  // of `data` in its storage, in elements
  DeviceKind device = DeviceKind::kCpu;
  int device_ordinal = 0;
  // Keeps the memory alive. Null when the caller keeps it alive another way;
  // an output that views such an input is as short-lived as the input.
  std::shared_ptr<void> owner;
  // The start of the allocation: two tensors with equal storage alias.
  const void* storage = nullptr;
};

// The product of `sizes`; 1 for a scalar tensor.
inline int64_t NumElements(const Dims& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

// Strides of a row-major tensor without gaps, as PyTorch gives them: a
// dimension of size 0 counts as 1.
inline Dims ContiguousStrides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (int i = static_cast<int>(sizes.size()) - 1; i >= 0; --i) {
    strides[i] = step;
    step *= sizes[i] == 0 ? 1 : sizes[i];
  }
  return strides;
}

// A tensor, or an integer that the graph takes by value.
using InputValue = std::variant<Tensor, int64_t>;

// A result: nothing (the graph's None), a tensor, or an integer.
using OutputValue = std::variant<std::monostate, Tensor, int64_t>;

}  // namespace kiln

#endif  // KILN_RUNTIME_TENSOR_H_

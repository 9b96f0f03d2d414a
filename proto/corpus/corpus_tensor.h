#ifndef KILN_PROTO_CORPUS_CORPUS_TENSOR_H_
#define KILN_PROTO_CORPUS_CORPUS_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/dtype.h"

namespace kiln {

// Where the elements of a tensor lie. Strides and offset in elements; a stride
// may be 0, never negative.
struct TensorLayout {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
};

// Product of the sizes; 1 for a scalar.
int64_t NumElements(absl::Span<const int64_t> sizes);

// Strides of a row-major tensor of these sizes.
std::vector<int64_t> ContiguousStrides(absl::Span<const int64_t> sizes);

// Elements from the start of the storage to the last one that is touched.
int64_t StorageElements(const TensorLayout& layout);

// A tensor with its values, laid out under its strides.
struct CorpusTensor {
  TensorLayout layout;
  // StorageElements(layout) elements; what no index reaches is zero. The bytes
  // start at an address that is a multiple of 16.
  std::vector<char> storage;

  const char* data() const {
    return storage.data() + layout.storage_offset * SizeInBytes(layout.dtype);
  }
  char* data() {
    return storage.data() + layout.storage_offset * SizeInBytes(layout.dtype);
  }
};

// Spreads row-major `values` out under `layout`. DATA_LOSS when `values` has
// not the bytes that the sizes ask for.
absl::StatusOr<CorpusTensor> LayOut(const TensorLayout& layout,
                                    absl::string_view values);

// The elements of a strided tensor whose first element is at `first`, in
// row-major order.
std::string Gather(const TensorLayout& layout, const char* first);

// One element as a double: exact for all dtypes but int64 past 2^53.
double ElementAsDouble(DType dtype, const char* element);

// Rounds `value` to `dtype` (ties to even) and stores it. For integers `value`
// is whole and in range.
void StoreElement(DType dtype, double value, char* element);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_TENSOR_H_

#ifndef KILN_COMPILER_REFERENCE_REF_TENSOR_H_
#define KILN_COMPILER_REFERENCE_REF_TENSOR_H_

// What the reference interpreter computes with: strided tensors that share
// their memory as PyTorch's do, and their elements widened to double or int64.
//
// Everything here is slow and plain on purpose. Not thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "proto/base/dtype.h"

namespace kiln {

using Sizes = std::vector<int64_t>;

int64_t NumElements(const Sizes& sizes);
// Row-major; a size of 0 counts as 1.
Sizes RowMajorStrides(const Sizes& sizes);

// A view of a storage. Copies share the storage: an in-place operator on one
// is seen through all. Strides and offset in elements.
struct RefTensor {
  std::shared_ptr<std::string> storage;  // null: a result that was left out
  DType dtype = DType::kFloat32;
  Sizes sizes;
  Sizes strides;
  int64_t offset = 0;

  bool defined() const { return storage != nullptr; }
  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t numel() const { return NumElements(sizes); }

  // Fresh memory of zeros, just large enough.
  static RefTensor Zeros(DType dtype, Sizes sizes, Sizes strides);
  static RefTensor Zeros(DType dtype, Sizes sizes);
  // `bytes`: little-endian, row-major, of exactly the size due.
  static RefTensor FromBytes(DType dtype, Sizes sizes, absl::string_view bytes);
  // The same elements in fresh memory laid out by `strides` (and `offset`).
  RefTensor WithLayout(const Sizes& strides, int64_t offset) const;
  // Row-major, little-endian.
  std::string Bytes() const;
};

// The elements of a tensor in row-major order, widened: floats to double,
// integers and bool to int64.
struct Elements {
  Sizes sizes;
  bool floating = true;
  std::vector<double> f;   // when floating
  std::vector<int64_t> i;  // else

  static Elements Floats(Sizes sizes, double fill = 0);
  static Elements Ints(Sizes sizes, int64_t fill = 0);
  // Zeros of this one's kind.
  Elements Like(Sizes sizes) const;
  // Element `to` becomes element `at` of `from`, which is of the same kind.
  void Take(int64_t to, const Elements& from, int64_t at);

  int64_t count() const { return NumElements(sizes); }
  double F(int64_t k) const {
    return floating ? f[k] : static_cast<double>(i[k]);
  }
  // Floats are truncated; what does not fit is the smallest int64.
  int64_t I(int64_t k) const;
  bool B(int64_t k) const { return floating ? f[k] != 0 : i[k] != 0; }
  // Each element converted to double, or to int64.
  Elements AsFloats() const;
  Elements AsInts() const;
  // Broadcast by PyTorch's rule. `to` must be reachable.
  Elements Broadcast(const Sizes& to) const;
};

Elements Load(const RefTensor& tensor);
// Writes `elements` (as many as `tensor` has), rounded to its dtype: to f32
// first and then to a half type, as eager operators do; integers wrap.
void Store(const Elements& elements, RefTensor& tensor);

// `value` as a float that `dtype` can hold, by the same roundings.
double RoundTo(DType dtype, double value);

// Calls `visit` with each index of `sizes` in row-major order.
void ForEachIndex(const Sizes& sizes,
                  absl::FunctionRef<void(const Sizes& index)> visit);
// The row-major position of `index` in `sizes`.
int64_t FlatIndex(const Sizes& sizes, const Sizes& index);
// The common shape of two by PyTorch's rule. They must broadcast.
Sizes BroadcastSizes(const Sizes& a, const Sizes& b);

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_REF_TENSOR_H_

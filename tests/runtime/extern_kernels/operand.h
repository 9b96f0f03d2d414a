#ifndef KILN_TESTS_RUNTIME_EXTERN_KERNELS_OPERAND_H_
#define KILN_TESTS_RUNTIME_EXTERN_KERNELS_OPERAND_H_

#include <cstdint>
#include <random>
#include <vector>

#include "proto/base/dtype.h"
#include "runtime/extern_kernels/half_float.h"
#include "runtime/extern_kernels/read_extern_call.h"

namespace kiln {

// A tensor of a test on the host: any dtype, any strides; values are read and
// written as doubles.
class Operand {
 public:
  Operand(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides)
      : dtype_(dtype), sizes_(std::move(sizes)), strides_(std::move(strides)) {
    int64_t last = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] == 0) return;
      last += (sizes_[i] - 1) * strides_[i];
    }
    bytes_.resize((last + 1) * SizeInBytes(dtype));
  }

  // Dimensions laid out in `order`, outermost first; no gaps.
  static Operand Dense(DType dtype, std::vector<int64_t> sizes,
                       std::vector<int> order) {
    std::vector<int64_t> strides(sizes.size());
    int64_t step = 1;
    for (size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = step;
      step *= std::max<int64_t>(1, sizes[order[i]]);
    }
    return Operand(dtype, std::move(sizes), std::move(strides));
  }

  // Whole numbers from -2 to 2: their products and short sums are exact in
  // every dtype, so results must be equal to the bit.
  void FillWithSmallIntegers(std::mt19937& random) {
    for (size_t i = 0; i < bytes_.size() / SizeInBytes(dtype_); ++i) {
      Set(i, static_cast<int>(random() % 5) - 2);
    }
  }
  void FillWith(double value) {
    for (size_t i = 0; i < bytes_.size() / SizeInBytes(dtype_); ++i) {
      Set(i, value);
    }
  }

  int64_t Offset(const std::vector<int64_t>& place) const {
    int64_t offset = 0;
    for (size_t i = 0; i < place.size(); ++i) offset += place[i] * strides_[i];
    return offset;
  }
  double At(const std::vector<int64_t>& place) const {
    return Get(Offset(place));
  }

  double Get(int64_t i) const {
    switch (dtype_) {
      case DType::kFloat16:
        return FloatOfFloat16(As<uint16_t>()[i]);
      case DType::kBFloat16:
        return FloatOfBFloat16(As<uint16_t>()[i]);
      case DType::kFloat32:
        return As<float>()[i];
      case DType::kFloat64:
        return As<double>()[i];
      case DType::kInt32:
        return As<int32_t>()[i];
      case DType::kInt64:
        return static_cast<double>(As<int64_t>()[i]);
      case DType::kBool:
      case DType::kUInt8:
        return As<uint8_t>()[i];
      case DType::kInt8:
        return As<int8_t>()[i];
      case DType::kInt16:
        return As<int16_t>()[i];
    }
    return 0;
  }
  void Set(int64_t i, double value) {
    switch (dtype_) {
      case DType::kFloat16:
        As<uint16_t>()[i] = Float16Of(static_cast<float>(value));
        break;
      case DType::kBFloat16:
        As<uint16_t>()[i] = BFloat16Of(static_cast<float>(value));
        break;
      case DType::kFloat32:
        As<float>()[i] = static_cast<float>(value);
        break;
      case DType::kFloat64:
        As<double>()[i] = value;
        break;
      case DType::kInt32:
        As<int32_t>()[i] = static_cast<int32_t>(value);
        break;
      case DType::kInt64:
        As<int64_t>()[i] = static_cast<int64_t>(value);
        break;
      case DType::kBool:
      case DType::kUInt8:
        As<uint8_t>()[i] = static_cast<uint8_t>(value);
        break;
      case DType::kInt8:
        As<int8_t>()[i] = static_cast<int8_t>(value);
        break;
      case DType::kInt16:
        As<int16_t>()[i] = static_cast<int16_t>(value);
        break;
    }
  }

  // On a device it begins so many bytes behind the start of its memory.
  void StartAt(int64_t bytes) { start_bytes_ = bytes; }
  int64_t start_bytes() const { return start_bytes_; }

  ExternOperand meta() const { return {dtype_, sizes_, strides_}; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t size(int dim) const { return sizes_[dim]; }
  void* data() { return bytes_.empty() ? nullptr : bytes_.data(); }
  const std::vector<char>& bytes() const { return bytes_; }
  std::vector<char>& bytes() { return bytes_; }

 private:
  template <typename T>
  T* As() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <typename T>
  const T* As() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }

  DType dtype_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  std::vector<char> bytes_;
  int64_t start_bytes_ = 0;
};

// Visits every index of a box once, the last dimension fastest.
template <typename Visit>
void ForEachIndex(const std::vector<int64_t>& sizes, const Visit& visit) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  std::vector<int64_t> place(sizes.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      place[dim] = rest % sizes[dim];
      rest /= sizes[dim];
    }
    visit(place);
  }
}

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_EXTERN_KERNELS_OPERAND_H_

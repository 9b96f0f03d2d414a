#include "compiler/reference/ref_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "compiler/reference/half_bits.h"

namespace kiln {
namespace {

int64_t IntFromDouble(double value) {
  // 2^63 and beyond, and NaN: what x86's conversion gives.
  if (!(value >= -0x1p63 && value < 0x1p63)) {
    return std::numeric_limits<int64_t>::min();
  }
  return static_cast<int64_t>(value);
}

template <typename T>
T ReadAs(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void WriteAs(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

double ReadFloat(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kFloat16:
      return FloatFromF16Bits(ReadAs<uint16_t>(at));
    case DType::kBFloat16:
      return FloatFromBF16Bits(ReadAs<uint16_t>(at));
    case DType::kFloat32:
      return ReadAs<float>(at);
    default:
      return ReadAs<double>(at);
  }
}

int64_t ReadInt(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kBool:
      return ReadAs<uint8_t>(at) != 0;
    case DType::kUInt8:
      return ReadAs<uint8_t>(at);
    case DType::kInt8:
      return ReadAs<int8_t>(at);
    case DType::kInt16:
      return ReadAs<int16_t>(at);
    case DType::kInt32:
      return ReadAs<int32_t>(at);
    default:
      return ReadAs<int64_t>(at);
  }
}

void WriteFloat(DType dtype, double value, char* at) {
  const float narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::kFloat16:
      return WriteAs<uint16_t>(at, F16BitsFromFloat(narrow));
    case DType::kBFloat16:
      return WriteAs<uint16_t>(at, BF16BitsFromFloat(narrow));
    case DType::kFloat32:
      return WriteAs<float>(at, narrow);
    default:
      return WriteAs<double>(at, value);
  }
}

void WriteInt(DType dtype, int64_t value, char* at) {
  switch (SizeInBytes(dtype)) {
    case 1:
      return WriteAs<int8_t>(at, static_cast<int8_t>(value));
    case 2:
      return WriteAs<int16_t>(at, static_cast<int16_t>(value));
    case 4:
      return WriteAs<int32_t>(at, static_cast<int32_t>(value));
    default:
      return WriteAs<int64_t>(at, value);
  }
}

// Calls `visit(k, position)` for the k-th element, row-major, and its position
// in the storage in elements.
template <typename Visit>
void ForEachPosition(const RefTensor& t, Visit visit) {
  const int64_t count = t.numel();
  Sizes index(t.sizes.size(), 0);
  int64_t position = t.offset;
  for (int64_t k = 0; k < count; ++k) {
    visit(k, position);
    for (int d = t.rank() - 1; d >= 0; --d) {
      position += t.strides[d];
      if (++index[d] < t.sizes[d]) break;
      position -= index[d] * t.strides[d];
      index[d] = 0;
    }
  }
}

// Elements of storage that a layout reaches.
int64_t Reach(const Sizes& sizes, const Sizes& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

}  // namespace

int64_t NumElements(const Sizes& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

Sizes RowMajorStrides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = next;
    next *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

RefTensor RefTensor::Zeros(DType dtype, Sizes sizes, Sizes strides) {
  RefTensor t;
  t.storage = std::make_shared<std::string>(
      Reach(sizes, strides) * SizeInBytes(dtype), '\0');
  t.dtype = dtype;
  t.sizes = std::move(sizes);
  t.strides = std::move(strides);
  return t;
}

RefTensor RefTensor::Zeros(DType dtype, Sizes sizes) {
  Sizes strides = RowMajorStrides(sizes);
  return Zeros(dtype, std::move(sizes), std::move(strides));
}

RefTensor RefTensor::FromBytes(DType dtype, Sizes sizes,
                               absl::string_view bytes) {
  RefTensor t = Zeros(dtype, std::move(sizes));
  std::memcpy(t.storage->data(), bytes.data(),
              std::min(bytes.size(), t.storage->size()));
  return t;
}

RefTensor RefTensor::WithLayout(const Sizes& strides, int64_t offset) const {
  RefTensor t;
  t.storage = std::make_shared<std::string>(
      (offset + Reach(sizes, strides)) * SizeInBytes(dtype), '\0');
  t.dtype = dtype;
  t.sizes = sizes;
  t.strides = strides;
  t.offset = offset;
  Store(Load(*this), t);
  return t;
}

std::string RefTensor::Bytes() const {
  RefTensor dense = Zeros(dtype, sizes);
  Store(Load(*this), dense);
  return *dense.storage;
}

Elements Elements::Floats(Sizes sizes, double fill) {
  Elements e;
  e.f.assign(NumElements(sizes), fill);
  e.sizes = std::move(sizes);
  return e;
}

Elements Elements::Ints(Sizes sizes, int64_t fill) {
  Elements e;
  e.floating = false;
  e.i.assign(NumElements(sizes), fill);
  e.sizes = std::move(sizes);
  return e;
}

Elements Elements::Like(Sizes sizes) const {
  return floating ? Floats(std::move(sizes)) : Ints(std::move(sizes));
}

void Elements::Take(int64_t to, const Elements& from, int64_t at) {
  if (floating) {
    f[to] = from.f[at];
  } else {
    i[to] = from.i[at];
  }
}

int64_t Elements::I(int64_t k) const {
  return floating ? IntFromDouble(f[k]) : i[k];
}

Elements Elements::AsFloats() const {
  Elements e = Floats(sizes);
  for (size_t k = 0; k < e.f.size(); ++k) e.f[k] = F(k);
  return e;
}

Elements Elements::AsInts() const {
  Elements e = Ints(sizes);
  for (size_t k = 0; k < e.i.size(); ++k) e.i[k] = I(k);
  return e;
}

Elements Elements::Broadcast(const Sizes& to) const {
  if (to == sizes) return *this;
  RefTensor picture;  // for its strides alone
  picture.sizes = to;
  picture.strides.assign(to.size(), 0);
  const Sizes own = RowMajorStrides(sizes);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const size_t at = to.size() - sizes.size() + d;
    if (sizes[d] != 1) picture.strides[at] = own[d];
  }
  Elements e = floating ? Floats(to) : Ints(to);
  ForEachPosition(picture, [&](int64_t k, int64_t from) {
    if (floating) {
      e.f[k] = f[from];
    } else {
      e.i[k] = i[from];
    }
  });
  return e;
}

Elements Load(const RefTensor& t) {
  const int64_t bytes = SizeInBytes(t.dtype);
  const char* data = t.storage->data();
  Elements e =
      IsFloat(t.dtype) ? Elements::Floats(t.sizes) : Elements::Ints(t.sizes);
  ForEachPosition(t, [&](int64_t k, int64_t position) {
    const char* at = data + position * bytes;
    if (e.floating) {
      e.f[k] = ReadFloat(t.dtype, at);
    } else {
      e.i[k] = ReadInt(t.dtype, at);
    }
  });
  return e;
}

void Store(const Elements& e, RefTensor& t) {
  const int64_t bytes = SizeInBytes(t.dtype);
  char* data = t.storage->data();
  ForEachPosition(t, [&](int64_t k, int64_t position) {
    char* at = data + position * bytes;
    if (IsFloat(t.dtype)) {
      WriteFloat(t.dtype, e.F(k), at);
    } else if (t.dtype == DType::kBool) {
      WriteInt(t.dtype, e.B(k), at);
    } else {
      WriteInt(t.dtype, e.I(k), at);
    }
  });
}

double RoundTo(DType dtype, double value) {
  char bytes[8];
  WriteFloat(dtype, value, bytes);
  return ReadFloat(dtype, bytes);
}

void ForEachIndex(const Sizes& sizes,
                  absl::FunctionRef<void(const Sizes& index)> visit) {
  const int64_t count = NumElements(sizes);
  Sizes index(sizes.size(), 0);
  for (int64_t k = 0; k < count; ++k) {
    visit(index);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

int64_t FlatIndex(const Sizes& sizes, const Sizes& index) {
  int64_t flat = 0;
  for (size_t d = 0; d < sizes.size(); ++d) flat = flat * sizes[d] + index[d];
  return flat;
}

Sizes BroadcastSizes(const Sizes& a, const Sizes& b) {
  Sizes out(std::max(a.size(), b.size()), 1);
  for (size_t d = 0; d < out.size(); ++d) {
    const size_t from_end = out.size() - d;
    const int64_t x = from_end <= a.size() ? a[a.size() - from_end] : 1;
    const int64_t y = from_end <= b.size() ? b[b.size() - from_end] : 1;
    out[d] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace kiln

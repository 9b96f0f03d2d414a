#include "proto/corpus/corpus_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Calls visit(offset) with the element offset of each index, row-major.
template <typename Visit>
void VisitOffsets(const TensorLayout& layout, Visit visit) {
  const int64_t count = NumElements(layout.sizes);
  const int rank = static_cast<int>(layout.sizes.size());
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (int64_t n = 0; n < count; ++n) {
    visit(offset);
    for (int d = rank - 1; d >= 0; --d) {
      offset += layout.strides[d];
      if (++index[d] < layout.sizes[d]) break;
      offset -= layout.strides[d] * layout.sizes[d];
      index[d] = 0;
    }
  }
}

template <typename T>
T LoadAs(const char* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

template <typename T>
void StoreAs(T value, char* element) {
  std::memcpy(element, &value, sizeof(T));
}

double HalfToDouble(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double magnitude;
  if (exponent == 31) {
    magnitude = mantissa != 0 ? NAN : HUGE_VAL;
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, -24);
  } else {
    magnitude = std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Rounds to the binary floating type with `mantissa_bits` stored bits of
// mantissa and exponents down to `min_exponent` (of the unit in the first
// place), then packs sign, exponent and mantissa into 16 bits.
uint16_t DoubleTo16(double value, int mantissa_bits, int min_exponent) {
  const int exponent_bits = 15 - mantissa_bits;
  const uint16_t infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | infinity | (1 << (mantissa_bits - 1));
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  int exponent = min_exponent;
  if (magnitude > 0) exponent = std::max(exponent, std::ilogb(magnitude));
  // In units of the last place: below 2^(mantissa_bits + 1), or just at it.
  const auto units = static_cast<int64_t>(
      std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  // A carry out of the mantissa lands in the exponent, as it should.
  const int64_t packed =
      units + (static_cast<int64_t>(exponent - min_exponent) << mantissa_bits);
  return sign | static_cast<uint16_t>(std::min<int64_t>(packed, infinity));
}

}  // namespace

int64_t NumElements(absl::Span<const int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

std::vector<int64_t> ContiguousStrides(absl::Span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

int64_t StorageElements(const TensorLayout& layout) {
  if (NumElements(layout.sizes) == 0) return layout.storage_offset;
  int64_t last = layout.storage_offset;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    last += (layout.sizes[d] - 1) * layout.strides[d];
  }
  return last + 1;
}

absl::StatusOr<CorpusTensor> LayOut(const TensorLayout& layout,
                                    absl::string_view values) {
  const int64_t width = SizeInBytes(layout.dtype);
  const int64_t due = NumElements(layout.sizes) * width;
  if (static_cast<int64_t>(values.size()) != due) {
    return absl::DataLossError(absl::StrCat(
        "tensor values: found ", values.size(), " bytes, expected ", due));
  }
  CorpusTensor out{layout,
                   std::vector<char>(StorageElements(layout) * width, '\0')};
  const char* from = values.data();
  VisitOffsets(layout, [&](int64_t offset) {
    std::memcpy(out.data() + offset * width, from, width);
    from += width;
  });
  return out;
}

std::string Gather(const TensorLayout& layout, const char* first) {
  const int64_t width = SizeInBytes(layout.dtype);
  std::string values(NumElements(layout.sizes) * width, '\0');
  char* to = values.data();
  VisitOffsets(layout, [&](int64_t offset) {
    std::memcpy(to, first + offset * width, width);
    to += width;
  });
  return values;
}

double ElementAsDouble(DType dtype, const char* element) {
  switch (dtype) {
    case DType::kBool:
      return *element != 0 ? 1 : 0;
    case DType::kUInt8:
      return LoadAs<uint8_t>(element);
    case DType::kInt8:
      return LoadAs<int8_t>(element);
    case DType::kInt16:
      return LoadAs<int16_t>(element);
    case DType::kInt32:
      return LoadAs<int32_t>(element);
    case DType::kInt64:
      return static_cast<double>(LoadAs<int64_t>(element));
    case DType::kFloat16:
      return HalfToDouble(LoadAs<uint16_t>(element));
    case DType::kBFloat16: {
      const uint32_t bits = uint32_t{LoadAs<uint16_t>(element)} << 16;
      return LoadAs<float>(reinterpret_cast<const char*>(&bits));
    }
    case DType::kFloat32:
      return LoadAs<float>(element);
    case DType::kFloat64:
      return LoadAs<double>(element);
  }
  return NAN;
}

void StoreElement(DType dtype, double value, char* element) {
  switch (dtype) {
    case DType::kBool:
      return StoreAs<uint8_t>(value != 0 ? 1 : 0, element);
    case DType::kUInt8:
      return StoreAs(static_cast<uint8_t>(value), element);
    case DType::kInt8:
      return StoreAs(static_cast<int8_t>(value), element);
    case DType::kInt16:
      return StoreAs(static_cast<int16_t>(value), element);
    case DType::kInt32:
      return StoreAs(static_cast<int32_t>(value), element);
    case DType::kInt64:
      return StoreAs(static_cast<int64_t>(value), element);
    case DType::kFloat16:
      return StoreAs(DoubleTo16(value, 10, -14), element);
    case DType::kBFloat16:
      return StoreAs(DoubleTo16(value, 7, -126), element);
    case DType::kFloat32:
      return StoreAs(static_cast<float>(value), element);
    case DType::kFloat64:
      return StoreAs(value, element);
  }
}

}  // namespace kiln

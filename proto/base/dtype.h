#ifndef KILN_PROTO_BASE_DTYPE_H_
#define KILN_PROTO_BASE_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace kiln {

namespace wire {
enum DType : int;  // of proto/graph.pb.h
}

// The element types Kiln computes with. Numbers equal wire::DType's.
enum class DType : uint8_t {
  kBool = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kFloat16 = 7,
  kBFloat16 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
};

// Bytes of one element in memory.
constexpr int64_t SizeInBytes(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

constexpr bool IsFloat(DType d) { return d >= DType::kFloat16; }
constexpr bool IsHalf(DType d) {
  return d == DType::kFloat16 || d == DType::kBFloat16;
}
constexpr bool IsInteger(DType d) {
  return d >= DType::kUInt8 && d <= DType::kInt64;
}  // bool is not one

// Short names of IR text: "f32", "bf16", "i64", "u8", "bool".
absl::string_view ShortName(DType dtype);
std::optional<DType> DTypeFromShortName(absl::string_view name);

// PyTorch's names, as in corpus files: "float32", "bfloat16", "int64", "bool".
absl::string_view TorchName(DType dtype);
// Empty for a name PyTorch knows and Kiln does not compute with ("complex64").
std::optional<DType> DTypeFromTorchName(absl::string_view name);

// Empty for a wire dtype that Kiln does not compute with.
std::optional<DType> DTypeFromWire(wire::DType dtype);
wire::DType ToWire(DType dtype);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_DTYPE_H_

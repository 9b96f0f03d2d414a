#include "proto/base/dtype.h"

#include "proto/graph.pb.h"

namespace kiln {
namespace {

struct DTypeRow {
  DType dtype;
  absl::string_view short_name;
  absl::string_view torch_name;
};

constexpr DTypeRow kDTypes[] = {
    {DType::kBool, "bool", "bool"},      {DType::kUInt8, "u8", "uint8"},
    {DType::kInt8, "i8", "int8"},        {DType::kInt16, "i16", "int16"},
    {DType::kInt32, "i32", "int32"},     {DType::kInt64, "i64", "int64"},
    {DType::kFloat16, "f16", "float16"}, {DType::kBFloat16, "bf16", "bfloat16"},
    {DType::kFloat32, "f32", "float32"}, {DType::kFloat64, "f64", "float64"},
};

const DTypeRow& RowOf(DType dtype) {
  return kDTypes[static_cast<int>(dtype) - 1];
}

}  // namespace

absl::string_view ShortName(DType dtype) { return RowOf(dtype).short_name; }

std::optional<DType> DTypeFromShortName(absl::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.short_name == name) return row.dtype;
  }
  return std::nullopt;
}

absl::string_view TorchName(DType dtype) { return RowOf(dtype).torch_name; }

std::optional<DType> DTypeFromTorchName(absl::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.torch_name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromWire(wire::DType dtype) {
  if (dtype < wire::DTYPE_BOOL || dtype > wire::DTYPE_FLOAT64)
    return std::nullopt;
  return static_cast<DType>(dtype);
}

wire::DType ToWire(DType dtype) { return static_cast<wire::DType>(dtype); }

}  // namespace kiln

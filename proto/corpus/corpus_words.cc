#include "proto/corpus/corpus_words.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Unsupported(absl::string_view kind, absl::string_view name) {
  return MakeError(ErrorReason::kUnsupportedOp, absl::StrCat(kind, " ", name));
}

struct DTypeRow {
  absl::string_view torch;
  absl::string_view safetensors;
  wire::DType dtype;
};

constexpr DTypeRow kDTypes[] = {
    {"bool", "BOOL", wire::DTYPE_BOOL},
    {"uint8", "U8", wire::DTYPE_UINT8},
    {"int8", "I8", wire::DTYPE_INT8},
    {"int16", "I16", wire::DTYPE_INT16},
    {"int32", "I32", wire::DTYPE_INT32},
    {"int64", "I64", wire::DTYPE_INT64},
    {"float16", "F16", wire::DTYPE_FLOAT16},
    {"bfloat16", "BF16", wire::DTYPE_BFLOAT16},
    {"float32", "F32", wire::DTYPE_FLOAT32},
    {"float64", "F64", wire::DTYPE_FLOAT64},
    {"complex32", "C32", wire::DTYPE_COMPLEX32},
    {"complex64", "C64", wire::DTYPE_COMPLEX64},
    {"complex128", "C128", wire::DTYPE_COMPLEX128},
    {"float8_e4m3fn", "F8_E4M3", wire::DTYPE_FLOAT8_E4M3FN},
    {"float8_e5m2", "F8_E5M2", wire::DTYPE_FLOAT8_E5M2},
    {"uint16", "U16", wire::DTYPE_UINT16},
    {"uint32", "U32", wire::DTYPE_UINT32},
    {"uint64", "U64", wire::DTYPE_UINT64},
};

struct FormatRow {
  absl::string_view name;
  wire::MemoryFormat format;
};

constexpr FormatRow kFormats[] = {
    {"contiguous_format", wire::MEMORY_FORMAT_CONTIGUOUS},
    {"preserve_format", wire::MEMORY_FORMAT_PRESERVE},
    {"channels_last", wire::MEMORY_FORMAT_CHANNELS_LAST},
    {"channels_last_3d", wire::MEMORY_FORMAT_CHANNELS_LAST_3D},
};

}  // namespace

absl::StatusOr<wire::DType> WireDType(absl::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.torch == name) return row.dtype;
  }
  return Unsupported("dtype", name);
}

absl::StatusOr<wire::DType> SafetensorsDType(absl::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.safetensors == name) return row.dtype;
  }
  return Unsupported("safetensors dtype", name);
}

absl::StatusOr<wire::DeviceType> WireDevice(absl::string_view name) {
  if (name == "cpu") return wire::DEVICE_TYPE_CPU;
  if (name == "cuda" || absl::StartsWith(name, "cuda:")) {
    return wire::DEVICE_TYPE_CUDA;
  }
  return Unsupported("device", name);
}

absl::StatusOr<wire::MemoryFormat> WireMemoryFormat(absl::string_view name) {
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return row.format;
  }
  return Unsupported("memory format", name);
}

absl::StatusOr<double> SpecialFloat(absl::string_view name) {
  if (name == "inf") return HUGE_VAL;
  if (name == "-inf") return -HUGE_VAL;
  if (name == "nan") return NAN;
  return Unsupported("float", name);
}

}  // namespace kiln

#ifndef KILN_PROTO_CORPUS_CORPUS_WORDS_H_
#define KILN_PROTO_CORPUS_CORPUS_WORDS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/graph.pb.h"

// PyTorch's names, as corpus files write them, in the wire's words. Each gives
// UNIMPLEMENTED (UNSUPPORTED_OP), with the name, for one the wire cannot say.

namespace kiln {

// "float32", "complex64", "float8_e4m3fn".
absl::StatusOr<wire::DType> WireDType(absl::string_view name);

// "cpu", "cuda", "cuda:0". The ordinal is dropped.
absl::StatusOr<wire::DeviceType> WireDevice(absl::string_view name);

// "contiguous_format", "channels_last".
absl::StatusOr<wire::MemoryFormat> WireMemoryFormat(absl::string_view name);

// A float that JSON has no number for: "inf", "-inf", "nan".
absl::StatusOr<double> SpecialFloat(absl::string_view name);

// "F32" of a safetensors file.
absl::StatusOr<wire::DType> SafetensorsDType(absl::string_view name);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_WORDS_H_

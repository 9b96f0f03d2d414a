#ifndef KILN_PROTO_CORPUS_SAFETENSORS_H_
#define KILN_PROTO_CORPUS_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// A safetensors file in memory.
//
//   header_bytes  u64, little-endian
//   header        JSON: name -> {dtype, shape, data_offsets: [begin, end]}
//   data          row-major elements, little-endian; offsets count from here
//
// Immutable after Parse.
class Safetensors {
 public:
  struct Tensor {
    std::string dtype;  // "F32", "I64", "BOOL", ...
    std::vector<int64_t> sizes;
    absl::string_view bytes;  // lives as long as the Safetensors
  };

  // No tensors.
  Safetensors() = default;

  // DATA_LOSS when a length, an offset or the header is not sound.
  static absl::StatusOr<Safetensors> Parse(std::string bytes);

  // NOT_FOUND, with the name.
  absl::StatusOr<Tensor> Find(const std::string& name) const;

 private:
  struct Extent {
    std::string dtype;
    std::vector<int64_t> sizes;
    int64_t begin;  // from the start of bytes_
    int64_t end;
  };

  std::string bytes_;
  std::map<std::string, Extent> extents_;
};

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_SAFETENSORS_H_

#ifndef KILN_PROTO_BASE_PACKED_BYTES_H_
#define KILN_PROTO_BASE_PACKED_BYTES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Bytes as one Zstandard frame that states its size, at the fastest level.
std::string Pack(absl::string_view bytes);

// A frame unpacks to at most this many times its bytes: text of ours stays below
// 100, and what goes far beyond is there to fill memory.
inline constexpr size_t kMostUnpackedTimes = 1000;

// The bytes of such a frame. Its size is looked at before memory is taken, and
// memory grows with what really comes out.
//
// DATA_LOSS, without a reason: not one frame of a known size, a size over
// `max_bytes` or over kMostUnpackedTimes of `packed`, or other bytes than it says.
absl::StatusOr<std::string> Unpack(absl::string_view packed, size_t max_bytes);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_PACKED_BYTES_H_

#ifndef KILN_PROTO_BASE_FRAME_H_
#define KILN_PROTO_BASE_FRAME_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/steady_time.h"

namespace kiln {

// A frame on a stream socket between the daemon, or a client, and its worker.
// Integers are little-endian.
//
//   magic    u32   0x314e4c4b ("KLN1"); anything else ends the connection
//   length   u32   bytes of payload, <= max_bytes
//   xxh3     u64   XXH3-64 of the payload
//   payload        a WorkRequest (to the worker) or a WorkReply (from it)
//
// A frame is whole or it is an error; there is no partial read to recover
// from: after any error but UNAVAILABLE on a read the connection is closed.
inline constexpr int64_t kMaxFrameBytes = int64_t{256} << 20;

struct FrameOptions {
  // When to give up. A worker that says nothing is hung, not slow.
  SteadyTime deadline = kNever;
  // Larger frames are refused before anything is read or sent of them.
  int64_t max_bytes = kMaxFrameBytes;
};

// Reads one frame's payload from the stream socket `fd`, which may be blocking
// or not. One reader at a time on a descriptor.
//
// Errors:
//   UNAVAILABLE        the peer closed between two frames: the orderly end
//   DATA_LOSS          the peer closed inside a frame; a bad magic or checksum
//   OUT_OF_RANGE       TOO_LARGE: the header announces more than max_bytes
//   DEADLINE_EXCEEDED  the deadline passed first
//   INTERNAL           the system refused, with its reason
absl::StatusOr<std::string> ReadFrame(int fd, const FrameOptions& options = {});

// Writes one frame. One writer at a time on a descriptor. Never raises
// SIGPIPE.
//
// Errors: UNAVAILABLE when the peer is gone, OUT_OF_RANGE TOO_LARGE,
// DEADLINE_EXCEEDED, INTERNAL as above.
absl::Status WriteFrame(int fd, absl::string_view payload,
                        const FrameOptions& options = {});

}  // namespace kiln

#endif  // KILN_PROTO_BASE_FRAME_H_

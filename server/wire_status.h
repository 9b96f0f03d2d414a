#ifndef KILN_SERVER_WIRE_STATUS_H_
#define KILN_SERVER_WIRE_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/steady_time.h"
#include "server/waiter.h"

namespace kiln {

// What every service does at its door.

// `status` as gRPC's, its reason's name in the trailer "kiln-reason". A message
// over 4 KiB is cut: it travels in a header. QUEUE_FULL says when to try again,
// and refusals stand beside the message, as many as the caller takes
// (proto/base/rpc_details.h).
grpc::Status EndCall(grpc::CallbackServerContext& context,
                     const absl::Status& status);

// The moment after which the caller does not wait any more.
SteadyTime DeadlineOf(const grpc::CallbackServerContext& context);

// What a message that came in may have at most, messages in it included: some 300
// MiB of memory. A graph of 10,000 nodes has a quarter of a million.
inline constexpr int64_t kMaxFieldsDecoded = 2'000'000;

// Decodes `bytes`, which are spent by it.
//
// Errors, naming `what`:
//   OUT_OF_RANGE      TOO_LARGE        more than `max_bytes`, or more fields than
//                                      kMaxFieldsDecoded; nothing was decoded
//   INVALID_ARGUMENT  MALFORMED_GRAPH  no such message
absl::Status Decode(const grpc::ByteBuffer& bytes, int64_t max_bytes,
                    absl::string_view what, google::protobuf::Message& into);

// The bytes of `message`.
grpc::ByteBuffer Encode(const google::protobuf::Message& message);
// Those of an answer; what is shared stays where it is.
grpc::ByteBuffer BufferOf(SharedAnswer answer);

}  // namespace kiln

#endif  // KILN_SERVER_WIRE_STATUS_H_

#ifndef KILN_SERVER_WIRE_STATUS_H_
#define KILN_SERVER_WIRE_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"

namespace kiln {

// What every service does at its door.

// `status` as gRPC's, its reason's name in the trailer "kiln-reason". A message
// over 4 KiB is cut: it travels in a header.
grpc::Status EndCall(grpc::CallbackServerContext& context,
                     const absl::Status& status);

// The moment after which the caller does not wait any more.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

// Decodes `bytes`, which are spent by it.
//
// Errors, naming `what`:
//   OUT_OF_RANGE      TOO_LARGE        more than `max_bytes`
//   INVALID_ARGUMENT  MALFORMED_GRAPH  no such message
absl::Status Decode(const grpc::ByteBuffer& bytes, int64_t max_bytes,
                    absl::string_view what, google::protobuf::Message& into);

// The bytes of `message`.
grpc::ByteBuffer Encode(const google::protobuf::Message& message);

}  // namespace kiln

#endif  // KILN_SERVER_WIRE_STATUS_H_

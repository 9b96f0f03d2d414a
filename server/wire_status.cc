#include "server/wire_status.h"

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr size_t kMaxMessageBytes = 4096;

}  // namespace

grpc::Status EndCall(grpc::CallbackServerContext& context,
                     const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto reason = ReasonOf(status);
  if (reason.has_value()) {
    context.AddTrailingMetadata("kiln-reason",
                                std::string(ReasonName(*reason)));
  }
  // The numbers of the two enums are the same by design of both.
  return grpc::Status(
      static_cast<grpc::StatusCode>(status.code()),
      std::string(status.message().substr(0, kMaxMessageBytes)));
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteFuture();
  }
  return absl::FromChrono(deadline);
}

absl::Status Decode(const grpc::ByteBuffer& bytes, int64_t max_bytes,
                    absl::string_view what, google::protobuf::Message& into) {
  const int64_t found = static_cast<int64_t>(bytes.Length());
  if (found > max_bytes) {
    return MakeError(ErrorReason::kTooLarge,
                     absl::StrCat(what, ": found ", found, " bytes, at most ",
                                  max_bytes, " are due"));
  }
  grpc::ByteBuffer spent = bytes;  // shares the slices
  const grpc::Status parsed =
      grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&spent,
                                                                        &into);
  if (parsed.ok()) return absl::OkStatus();
  return MakeError(ErrorReason::kMalformedGraph,
                   absl::StrCat(what, ": found ", found, " bytes that are no ",
                                into.GetTypeName()));
}

grpc::ByteBuffer Encode(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  // Fails only beyond 2 GiB; the caller then sees an empty message refused.
  const grpc::Status ignored =
      grpc::SerializationTraits<google::protobuf::Message>::Serialize(
          message, &bytes, &own);
  return bytes;
}

}  // namespace kiln

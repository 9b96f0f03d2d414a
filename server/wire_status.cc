#include "server/wire_status.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "proto/base/count_fields.h"
#include "proto/base/grpc_deadline.h"
#include "proto/base/refusal.h"
#include "proto/base/rpc_details.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

constexpr size_t kMaxMessageBytes = 4096;

// When a caller that a queue had no place for should come again: a job takes a
// second or two. Callers wait longer each time.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(500);

absl::Status CheckFields(const grpc::ByteBuffer& bytes, absl::string_view what,
                         const google::protobuf::Message& into) {
  grpc::ByteBuffer read = bytes;
  grpc::ProtoBufferReader reader(&read);
  if (!reader.status().ok()) return absl::OkStatus();  // decoding says why
  const std::optional<int64_t> fields =
      CountFields(reader, *into.GetDescriptor(), kMaxFieldsDecoded);
  if (fields.value_or(0) <= kMaxFieldsDecoded) return absl::OkStatus();
  return MakeError(
      ErrorReason::kTooLarge,
      absl::StrCat(what, ": found more than ", kMaxFieldsDecoded, " fields in ",
                   bytes.Length(), " bytes, which is more than is decoded"));
}

bool Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message& into) {
  // As small ones come: in one piece, which is read where it lies.
  grpc::Slice whole;
  if (bytes.TrySingleSlice(&whole).ok())
    return into.ParseFromArray(whole.begin(), static_cast<int>(whole.size()));
  grpc::ByteBuffer spent = bytes;  // shares the slices
  return grpc::SerializationTraits<google::protobuf::Message>::Deserialize(
             &spent, &into)
      .ok();
}

// What the caller takes of refusals.
size_t DetailBytesFor(const grpc::CallbackServerContext& context) {
  const auto& headers = context.client_metadata();
  const auto row = headers.find(kDetailBytesHeader);
  size_t bytes = 0;
  if (row == headers.end() ||
      !absl::SimpleAtoi(
          absl::string_view(row->second.data(), row->second.size()), &bytes)) {
    return kDetailBytesByDefault;
  }
  return std::min(bytes, kMostRefusalBytes);
}

}  // namespace

grpc::Status EndCall(grpc::CallbackServerContext& context,
                     const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto reason = ReasonOf(status);
  if (reason.has_value()) {
    context.AddTrailingMetadata("kiln-reason",
                                std::string(ReasonName(*reason)));
  }
  absl::Status cut = status;
  if (cut.message().size() > kMaxMessageBytes) {
    cut = WithRefusalBytes(
        absl::Status(status.code(),
                     status.message().substr(0, kMaxMessageBytes)),
        RefusalBytesOf(status));
  }
  // The numbers of the two enums are the same by design of both.
  return grpc::Status(
      static_cast<grpc::StatusCode>(cut.code()), std::string(cut.message()),
      RpcDetailsOf(cut,
                   reason == ErrorReason::kQueueFull
                       ? std::optional<absl::Duration>(kRetryDelay)
                       : std::nullopt,
                   DetailBytesFor(context)));
}

SteadyTime DeadlineOf(const grpc::CallbackServerContext& context) {
  return FromGrpcDeadline(context.raw_deadline());
}

absl::Status Decode(const grpc::ByteBuffer& bytes, int64_t max_bytes,
                    absl::string_view what, google::protobuf::Message& into) {
  const int64_t found = static_cast<int64_t>(bytes.Length());
  if (found > max_bytes) {
    return MakeError(ErrorReason::kTooLarge,
                     absl::StrCat(what, ": found ", found,
                                  " bytes, expected at most ", max_bytes));
  }
  // A field has at least one byte.
  if (found > kMaxFieldsDecoded)
    RETURN_IF_ERROR(CheckFields(bytes, what, into));
  if (Parse(bytes, into)) return absl::OkStatus();
  return MakeError(ErrorReason::kMalformedGraph,
                   absl::StrCat(what, ": found ", found,
                                " bytes that are not a ", into.GetTypeName()));
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

grpc::ByteBuffer BufferOf(SharedAnswer answer) {
  const grpc::Slice slices[] = {
      grpc::Slice(answer.head),
      grpc::Slice(
          const_cast<char*>(answer.tail.data()), answer.tail.size(),
          [](void* owner) { delete static_cast<SharedBytes*>(owner); },
          new SharedBytes(std::move(answer.owner)))};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace kiln

#include "cache/far/peer_far_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/entry_id.h"
#include "cache/far/far_record.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/grpc_deadline.h"
#include "proto/base/status.h"
#include "proto/cache_service.grpc.pb.h"

namespace kiln {
namespace {

using Stub = wire::CacheService::Stub;

// How long a connection may take to be made: many looks find none meanwhile.
constexpr int kConnectMs = 5'000;

// What a message has beside the record in it.
constexpr int64_t kEnvelopeBytes = 4096;

grpc::ChannelArguments ArgumentsFor(int64_t max_record_bytes) {
  grpc::ChannelArguments arguments;
  const int64_t hints = kMaxEntriesPerKey * static_cast<int64_t>(kMaxHintBytes);
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(std::max(max_record_bytes, hints) + kEnvelopeBytes));
  arguments.SetMaxSendMessageSize(-1);
  // A new channel is a new connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  const int pause = static_cast<int>(absl::ToInt64Milliseconds(kFarPause));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, pause);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, pause);
  return arguments;
}

void SetName(const FarName& name, wire::RecordName& into) {
  into.set_key(name.key.ToBytes());
  if (name.entry.has_value()) into.set_entry(name.entry->ToBytes());
}

ErrorReason ReasonFor(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorReason::kPermission;
    case grpc::StatusCode::OUT_OF_RANGE:
      return ErrorReason::kTooLarge;
    case grpc::StatusCode::DATA_LOSS:
    case grpc::StatusCode::INTERNAL:  // no message of ours
      return ErrorReason::kArtifactCorrupt;
    default:
      return ErrorReason::kStorage;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<PeerFarStore>> PeerFarStore::Open(
    const Options& options) {
  ASSIGN_OR_RETURN(auto credentials,
                   CredentialsFor(options.address, options.tls));
  return std::shared_ptr<PeerFarStore>(
      new PeerFarStore(options, std::move(credentials)));
}

PeerFarStore::PeerFarStore(
    const Options& options,
    std::shared_ptr<grpc::ChannelCredentials> credentials)
    : options_(options),
      credentials_(std::move(credentials)),
      channel_(NewChannel()) {}

std::shared_ptr<grpc::Channel> PeerFarStore::NewChannel() const {
  return grpc::CreateCustomChannel(options_.address, credentials_,
                                   ArgumentsFor(options_.max_record_bytes));
}

absl::Status PeerFarStore::Connect(SteadyTime) {
  MutexLock lock(&mu_);
  channel_->GetState(/*try_to_connect=*/true);
  return absl::OkStatus();
}

template <typename Method, typename Request, typename Reply>
absl::Status PeerFarStore::Call(Method method, const Request& request,
                                Reply& reply, SteadyTime deadline) {
  const absl::Duration given = TimeLeft(deadline);
  if (given == absl::ZeroDuration())
    return absl::DeadlineExceededError("peer: no time left to ask");
  RETURN_IF_ERROR(breaker_.MayAsk());
  std::shared_ptr<grpc::Channel> channel;
  {
    MutexLock lock(&mu_);
    channel = channel_;
  }
  const auto stub = wire::CacheService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(deadline));
  return Judge(channel, ((*stub).*method)(&context, request, &reply), given);
}

absl::Status PeerFarStore::Judge(const std::shared_ptr<grpc::Channel>& channel,
                                 const grpc::Status& status,
                                 absl::Duration given) {
  const std::string where = absl::StrCat("peer ", options_.address, ": ");
  const grpc::StatusCode code = status.error_code();
  if (code == grpc::StatusCode::DEADLINE_EXCEEDED) {
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat(where, "no answer within ", absl::FormatDuration(given)));
    if (given >= kFairTime) breaker_.KeptSilent(late);
    // Of a connection that is there and silent nothing more is hoped.
    if (channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) {
      MutexLock lock(&mu_);
      if (channel_ == channel) channel_ = NewChannel();
    }
    return late;
  }
  const absl::Status failure =
      MakeError(ReasonFor(code), absl::StrCat(where, status.error_message()));
  if (code == grpc::StatusCode::UNAVAILABLE) {
    breaker_.KeptSilent(failure);
    return failure;
  }
  breaker_.Answered();
  if (status.ok()) return absl::OkStatus();
  if (code == grpc::StatusCode::NOT_FOUND)
    return absl::NotFoundError("not in the peer's cache");
  return failure;
}

absl::StatusOr<std::vector<FarHint>> PeerFarStore::Hints(const Digest& key,
                                                         SteadyTime deadline) {
  wire::HintsRequest request;
  request.set_key(key.ToBytes());
  wire::HintsReply reply;
  RETURN_IF_ERROR(Call(&Stub::Hints, request, reply, deadline));
  if (reply.hints_size() > kMaxEntriesPerKey) {
    return MakeError(
        ErrorReason::kArtifactCorrupt,
        absl::StrCat("peer ", options_.address, ": found ", reply.hints_size(),
                     " hints, expected at most ", kMaxEntriesPerKey));
  }
  std::vector<FarHint> hints;
  for (wire::HintsReply::Hint& hint : *reply.mutable_hints())
    hints.push_back({.id = std::move(*hint.mutable_entry()),
                     .hint = std::move(*hint.mutable_hint())});
  return hints;
}

absl::StatusOr<std::string> PeerFarStore::Get(const FarName& name,
                                              SteadyTime deadline) {
  wire::GetRecordRequest request;
  SetName(name, *request.mutable_name());
  request.set_max_bytes(static_cast<uint64_t>(options_.max_record_bytes));
  wire::GetRecordReply reply;
  RETURN_IF_ERROR(Call(&Stub::Get, request, reply, deadline));
  if (static_cast<int64_t>(reply.record().size()) > options_.max_record_bytes) {
    return MakeError(
        ErrorReason::kTooLarge,
        absl::StrCat("far record of key ", name.key.ShortHex(), ": over ",
                     options_.max_record_bytes, " bytes"));
  }
  return std::move(*reply.mutable_record());
}

absl::Status PeerFarStore::Put(const FarName& name, absl::string_view,
                               absl::string_view record, SteadyTime deadline) {
  wire::PutRecordRequest request;
  SetName(name, *request.mutable_name());
  request.set_record(std::string(record));
  wire::PutRecordReply reply;
  return Call(&Stub::Put, request, reply, deadline);
}

bool PeerFarStore::WasLeftAlone(const absl::Status& status) const {
  return IsPause(status);
}

}  // namespace kiln

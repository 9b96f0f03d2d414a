#include "client/compile_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/daemon_status.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/status.h"
#include "proto/compile_service.grpc.pb.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

using Stub = wire::CompileService::Stub;

absl::StatusOr<wire::DescribeReply> AskWhoItIs(
    const std::shared_ptr<grpc::Channel>& channel,
    const DaemonAddress& address) {
  const auto stub = wire::CompileService::NewStub(channel);
  grpc::ClientContext context;
  SetDeadline(context, absl::Now() + address.answer_timeout);
  wire::DescribeReply reply;
  const grpc::Status status =
      stub->Describe(&context, wire::DescribeRequest(), &reply);
  const absl::Status outcome =
      StatusOfCall(status, context, absl::StrCat("kilnd at ", address.Text()));
  // A daemon that does not say who it is in time is as good as none.
  if (absl::IsDeadlineExceeded(outcome)) {
    return MarkSilent(absl::UnavailableError(outcome.message()));
  }
  RETURN_IF_ERROR(outcome);
  return reply;
}

std::string BuildOf(const wire::DescribeReply& said) {
  constexpr size_t kShown = 4;
  return absl::StrCat(
      "kilnd ", said.version(), ", build ",
      absl::BytesToHexString(
          absl::string_view(said.build_identity()).substr(0, kShown)));
}

// The keys that artifacts of a daemon are verified with, which says of itself
// that it signs with `said`. Over TCP its word is worth nothing: with another
// key than the configured ones all that it gives would be refused one by one.
absl::StatusOr<std::vector<PublicKey>> KeysOf(const DaemonAddress& address,
                                              const PublicKey& said) {
  const std::vector<PublicKey>& due = address.public_keys;
  if (due.empty()) return std::vector<PublicKey>{said};
  if (!address.socket.empty() ||
      std::find(due.begin(), due.end(), said) != due.end()) {
    return due;
  }
  return MakeError(
      ErrorReason::kArtifactUntrusted,
      absl::StrCat("kilnd at ", address.Text(), ": signs with key ",
                   absl::BytesToHexString(said.bytes()), ", none of the ",
                   due.size(), " that are trusted"));
}

// The artifact under the request's digest; empty on a miss of any kind.
absl::StatusOr<std::optional<CompileOutcome>> LookUp(
    Stub& stub, const CanonicalRequest& request, absl::Time deadline) {
  wire::LookupRequest lookup;
  lookup.set_request_digest(request.digest.total.ToBytes());
  for (const int64_t value : request.values) {
    lookup.mutable_values()->add_values(value);
  }
  *lookup.mutable_target() = request.request.target();
  lookup.set_cache_namespace(request.request.cache_namespace());
  lookup.set_driver_cuda_version(request.request.driver_cuda_version());
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  wire::LookupReply reply;
  const absl::Status status =
      StatusOfCall(stub.Lookup(&context, lookup, &reply), context, "lookup");
  if (absl::IsDeadlineExceeded(status)) return MarkSilent(status);
  RETURN_IF_ERROR(status);
  if (reply.outcome() != wire::LookupReply::OUTCOME_HIT) return std::nullopt;
  CompileOutcome answer;
  answer.artifact = std::move(*reply.mutable_artifact());
  answer.served_from = wire::CompileResult::SERVED_FROM_CACHE;
  return answer;
}

CompileOutcome AnswerOf(wire::CompileResult result) {
  CompileOutcome answer;
  answer.artifact = std::move(*result.mutable_artifact());
  answer.served_from = result.served_from();
  answer.queued = absl::Microseconds(result.queue_us());
  answer.planned = absl::Microseconds(result.plan_us());
  answer.built = absl::Microseconds(result.build_us());
  answer.units_built = static_cast<int>(result.units_built());
  answer.units_cached = static_cast<int>(result.units_cached());
  return answer;
}

absl::StatusOr<CompileOutcome> SendGraph(Stub& stub,
                                         const wire::CompileRequest& request,
                                         const CompileCall& call) {
  grpc::ClientContext context;
  SetDeadline(context, call.deadline);
  const auto reader = stub.Compile(&context, request);
  std::optional<CompileOutcome> answer;
  wire::CompileEvent event;
  while (reader->Read(&event)) {
    if (event.has_result()) {
      answer = AnswerOf(std::move(*event.mutable_result()));
    } else if (event.has_progress() && call.on_progress) {
      call.on_progress(event.progress());
    }
  }
  const grpc::Status status = reader->Finish();
  RETURN_IF_ERROR(StatusOfCall(status, context, "compile"));
  if (answer.has_value()) return *std::move(answer);
  return absl::InternalError("compile: the daemon ended without a result");
}

// A compile may take its time; what the daemon has it says within `patience`.
absl::StatusOr<CompileOutcome> CompileOver(
    const std::shared_ptr<grpc::Channel>& channel,
    const CanonicalRequest& canonical, const wire::CompileRequest& request,
    const CompileCall& call, absl::Duration patience) {
  const auto stub = wire::CompileService::NewStub(channel);
  ASSIGN_OR_RETURN(std::optional<CompileOutcome> found,
                   LookUp(*stub, canonical,
                          std::min(call.deadline, absl::Now() + patience)));
  if (found.has_value()) return *std::move(found);
  return SendGraph(*stub, request, call);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileClient>> CompileClient::Connect(
    const DaemonAddress& address) {
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                   OpenDaemonChannel(address));
  // Also with a known key: a daemon that does not answer is no daemon.
  ASSIGN_OR_RETURN(const wire::DescribeReply said,
                   AskWhoItIs(channel, address));
  ASSIGN_OR_RETURN(const PublicKey key,
                   PublicKey::FromBytes(said.public_key()));
  ASSIGN_OR_RETURN(std::vector<PublicKey> keys, KeysOf(address, key));
  return std::unique_ptr<CompileClient>(new CompileClient(
      address, std::move(keys), BuildOf(said), std::move(channel)));
}

absl::StatusOr<CompileOutcome> CompileClient::Compile(
    const wire::CompileRequest& request, const CompileCall& call) {
  ASSIGN_OR_RETURN(const CanonicalRequest canonical,
                   CanonicalizeRequest(request));
  const std::shared_ptr<grpc::Channel> first = channel();
  absl::StatusOr<CompileOutcome> answer =
      CompileOver(first, canonical, request, call, address_.answer_timeout);
  if (ConnectionLost(answer.status())) {
    RETURN_IF_ERROR(Reconnect(first));
    answer = CompileOver(channel(), canonical, request, call,
                         address_.answer_timeout);
  }
  if (answer.ok()) answer->request_digest = canonical.digest.total;
  return answer;
}

std::shared_ptr<grpc::Channel> CompileClient::channel() const {
  MutexLock lock(&mu_);
  return channel_;
}

absl::Status CompileClient::Reconnect(
    const std::shared_ptr<grpc::Channel>& broken) {
  // Another thread may have done it already.
  if (channel() != broken) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> fresh,
                   OpenDaemonChannel(address_));
  MutexLock lock(&mu_);
  if (channel_ == broken) channel_.swap(fresh);
  return absl::OkStatus();
}

}  // namespace kiln

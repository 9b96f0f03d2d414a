#include "client/compile_client.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/compile_events.h"
#include "client/daemon_identity.h"
#include "client/daemon_status.h"
#include "grpcpp/grpcpp.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/base/tcp_address.h"
#include "proto/compile_service.grpc.pb.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

using Stub = wire::CompileService::Stub;

// Between two tries at a daemon whose queue is full.
constexpr absl::Duration kLongestPause = absl::Seconds(10);

absl::StatusOr<wire::DescribeReply> Describe(
    const std::shared_ptr<grpc::Channel>& channel,
    const DaemonAddress& address) {
  return AskWhoItIs(channel, address.answer_timeout,
                    absl::StrCat("kilnd at ", address.Text()));
}

std::string BuildOf(const wire::DescribeReply& said) {
  constexpr size_t kShown = 4;
  return absl::StrCat(
      "kilnd ", said.version(), ", build ",
      absl::BytesToHexString(
          absl::string_view(said.build_identity()).substr(0, kShown)));
}

// The artifact under the request's digest; empty on a miss of any kind.
absl::StatusOr<std::optional<CompileOutcome>> LookUp(
    Stub& stub, const CanonicalRequest& request, SteadyTime deadline) {
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
  if (absl::IsDeadlineExceeded(status)) {
    // A daemon that was stopped for a while measures the first deadlines from the
    // time before its stop. That is an answer: the compile has its own deadline.
    if (TimeLeft(deadline) > absl::ZeroDuration()) return std::nullopt;
    return MarkSilent(status);
  }
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

// A compile may take its time; what the daemon has it says soon.
absl::StatusOr<CompileOutcome> CompileOver(
    const std::shared_ptr<grpc::Channel>& channel,
    const CanonicalRequest& canonical, const wire::CompileRequest& request,
    const CompileCall& call, const DaemonAddress& address) {
  const auto stub = wire::CompileService::NewStub(channel);
  ASSIGN_OR_RETURN(
      std::optional<CompileOutcome> found,
      LookUp(*stub, canonical,
             std::min(call.deadline, SteadyIn(address.answer_timeout))));
  if (found.has_value()) return *std::move(found);
  ASSIGN_OR_RETURN(wire::CompileResult result,
                   CompileAndWait(*stub, request,
                                  {.deadline = call.deadline,
                                   .longest_silence = address.longest_silence,
                                   .on_progress = call.on_progress}));
  return AnswerOf(std::move(result));
}

const absl::Status& StatusIn(const absl::Status& answer) { return answer; }
absl::Status StatusIn(const absl::StatusOr<CompileOutcome>& answer) {
  return answer.status();
}

// What `ask` gives; it is asked again while the daemon has no place, until the
// deadline.
template <typename Ask>
auto AskWhileFull(SteadyTime deadline, Ask ask) {
  absl::BitGen random;
  for (int tries = 0;; ++tries) {
    auto answer = ask();
    const std::optional<absl::Duration> delay = RetryDelayOf(StatusIn(answer));
    if (!delay.has_value()) return answer;
    // Each rank waits another time: they were refused all at once.
    const absl::Duration pause = std::min(
        kLongestPause, *delay * absl::Uniform(random, 0.5, 1.5) *
                           static_cast<double>(1 << std::min(tries, 10)));
    if (TimeLeft(deadline) <= pause) return answer;
    absl::SleepFor(pause);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileClient>> CompileClient::Connect(
    const DaemonAddress& address) {
  if (address.socket.empty() && !address.tcp.empty()) {
    RETURN_IF_ERROR(
        Annotate(CheckTcpAddress(address.tcp, /*least_port=*/1), "daemon"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                   OpenDaemonChannel(address));
  // Also with a known key: a daemon that does not answer is no daemon.
  ASSIGN_OR_RETURN(const wire::DescribeReply said, Describe(channel, address));
  ASSIGN_OR_RETURN(TrustedKeys keys, KeysOf(address, said));
  return std::unique_ptr<CompileClient>(new CompileClient(
      address, std::move(keys), BuildOf(said), std::move(channel)));
}

absl::StatusOr<CompileOutcome> CompileClient::Compile(
    const wire::CompileRequest& request, const CompileCall& call) {
  ASSIGN_OR_RETURN(const CanonicalRequest canonical,
                   CanonicalizeRequest(request));
  absl::Status measured;
  if (request.options().max_autotune()) {
    measured = AskWhileFull(
        call.deadline, [&] { return MeasureFirst(request, call.deadline); });
  }
  absl::StatusOr<CompileOutcome> answer = AskWhileFull(
      call.deadline, [&] { return Ask(canonical, request, call); });
  if (answer.ok()) {
    answer->request_digest = canonical.digest.total;
    answer->measured = measured;
  }
  return answer;
}

absl::StatusOr<CompileOutcome> CompileClient::Ask(
    const CanonicalRequest& canonical, const wire::CompileRequest& request,
    const CompileCall& call) {
  const std::shared_ptr<grpc::Channel> first = channel();
  absl::StatusOr<CompileOutcome> answer =
      CompileOver(first, canonical, request, call, address_);
  if (!ConnectionLost(answer.status())) return answer;
  RETURN_IF_ERROR(Reconnect(first));
  return CompileOver(channel(), canonical, request, call, address_);
}

absl::Status CompileClient::MeasureFirst(const wire::CompileRequest& request,
                                         SteadyTime deadline) {
  wire::TuneRequest tune;
  *tune.mutable_compile() = request;
  tune.set_missing_only(true);
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  wire::TuneReply reply;
  const auto stub = wire::AdminService::NewStub(channel());
  RETURN_IF_ERROR(
      StatusOfCall(stub->Tune(&context, tune, &reply), context, "tune"));
  if (reply.failures().empty()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("tune: ", reply.failures_size(), " of ",
                   reply.failures_size() + reply.kernels_size(),
                   " not measured, the first ", reply.failures(0)));
}

TrustedKeys CompileClient::keys() const {
  MutexLock lock(&mu_);
  return keys_;
}

absl::Status CompileClient::RefreshKeys() {
  ASSIGN_OR_RETURN(const wire::DescribeReply said,
                   Describe(channel(), address_));
  ASSIGN_OR_RETURN(TrustedKeys keys, KeysOf(address_, said));
  MutexLock lock(&mu_);
  keys_ = std::move(keys);
  return absl::OkStatus();
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

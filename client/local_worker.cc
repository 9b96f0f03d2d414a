#include "client/local_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/frame.h"
#include "proto/base/parse_bounded.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/base/work_error.h"
#include "proto/base/work_limits.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

// A start is some 50 ms; this is for a machine on its knees.
constexpr absl::Duration kStartPatience = absl::Seconds(20);

// What a worker does for a request, in words.
std::string WorkOf(const wire::CompileRequest& request,
                   absl::string_view stage) {
  const std::string& name = request.graph().name();
  return name.empty() ? std::string(stage)
                      : absl::StrCat("graph ", name, ": ", stage);
}

}  // namespace

LocalWorker::LocalWorker(LocalWorkerOptions options)
    : options_(std::move(options)) {}

LocalWorker::~LocalWorker() {
  MutexLock lock(&mu_);
  child_.reset();
}

absl::StatusOr<CompileOutcome> LocalWorker::Compile(
    const wire::CompileRequest& request, const CompileCall& call) {
  ASSIGN_OR_RETURN(const TimedLock::Taken taken,
                   lock_.Take(call.deadline, "local worker"));
  MutexLock lock(&mu_);
  return CompileLocked(request, call.deadline);
}

absl::StatusOr<wire::HelloReply> LocalWorker::Hello(SteadyTime deadline) {
  ASSIGN_OR_RETURN(const TimedLock::Taken taken,
                   lock_.Take(deadline, "local worker"));
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(EnsureStarted());
  wire::WorkRequest request;
  request.mutable_hello();
  ASSIGN_OR_RETURN(wire::WorkReply reply,
                   Ask(std::move(request), "hello", deadline));
  if (reply.has_hello()) return std::move(*reply.mutable_hello());
  return absl::InternalError("local worker: its first reply is not a hello");
}

absl::StatusOr<CompileOutcome> LocalWorker::CompileLocked(
    const wire::CompileRequest& request, SteadyTime deadline) {
  // It has one caller, whose sizes decide.
  ASSIGN_OR_RETURN(CanonicalRequest canonical,
                   CanonicalizeRequest(request, DecideBy::kSizes));
  RETURN_IF_ERROR(EnsureStarted());
  CompileOutcome answer;
  answer.served_from = wire::CompileResult::SERVED_FROM_COMPILE;
  answer.request_digest = canonical.digest.total;
  const SteadyTime start = SteadyNow();

  wire::WorkRequest plan_request;
  *plan_request.mutable_plan()->mutable_compile() = canonical.request;
  ASSIGN_OR_RETURN(
      wire::WorkReply planned,
      Ask(std::move(plan_request), WorkOf(request, "planning"), deadline));
  if (!planned.has_plan()) {
    return absl::InternalError(
        "local worker: its reply to a plan request has no plan");
  }
  RETURN_IF_ERROR(CheckPlanSize(planned.plan(), request.graph().name()));
  const SteadyTime planned_at = SteadyNow();
  answer.planned = Between(start, planned_at);

  std::vector<wire::ObjectCode> objects;
  for (const wire::TranslationUnit& unit : planned.plan().units()) {
    wire::WorkRequest build_request;
    *build_request.mutable_build()->mutable_unit() = unit;
    *build_request.mutable_build()->mutable_target() = request.target();
    ASSIGN_OR_RETURN(
        wire::WorkReply built,
        Ask(std::move(build_request), WorkOf(request, "building"), deadline));
    if (!built.has_build()) {
      return absl::InternalError(
          "local worker: its reply to a build request has no object");
    }
    objects.push_back(std::move(*built.mutable_build()));
  }
  answer.built = Since(planned_at);
  answer.units_built = static_cast<int>(objects.size());
  ASSIGN_OR_RETURN(
      std::string bytes,
      AssembleArtifact(std::move(*planned.mutable_plan()), std::move(objects),
                       request.target(), canonical.digest.total,
                       canonical.digest.total));
  answer.artifact = UnsignedArtifact(std::move(bytes));
  return answer;
}

absl::Status LocalWorker::EnsureStarted() {
  if (child_ != nullptr && child_->UsedCpu() < kRequestCpu)
    return absl::OkStatus();
  child_.reset();
  JailedChildOptions options = {
      .program = options_.program,
      .env = options_.environment,
      .scratch_prefix = options_.scratch_root + "/kiln-worker"};
  options.jail.memory_bytes = options_.memory_bytes;
  options.jail.cpu_seconds = 2 * absl::ToInt64Seconds(kRequestCpu);
  absl::StatusOr<std::unique_ptr<JailedChild>> child =
      JailedChild::Start(std::move(options), kStartPatience);
  if (!child.ok()) return Annotate(child.status(), "local");
  child_ = *std::move(child);
  return absl::OkStatus();
}

absl::StatusOr<wire::WorkReply> LocalWorker::Ask(wire::WorkRequest request,
                                                 absl::string_view work,
                                                 SteadyTime deadline) {
  request.set_id(next_id_++);
  const SteadyTime hung = SteadyIn(options_.wall);
  const FrameOptions options = {.deadline = std::min(deadline, hung)};
  const int socket = child_->socket_fd();
  absl::Status sent = WriteFrame(socket, request.SerializeAsString(), options);
  absl::StatusOr<std::string> frame =
      sent.ok() ? ReadFrame(socket, options) : sent;
  wire::WorkReply reply;
  if (frame.ok() &&
      (!ParseBounded(*frame, reply) || reply.id() != request.id())) {
    frame = absl::DataLossError(
        "local worker: its reply does not match the request");
  }
  if (frame.ok()) {
    if (reply.has_error()) return StatusOf(reply.error());
    return reply;
  }
  // The stream is out of step: the process goes, the next compile starts anew.
  const std::string subject = absl::StrCat("local worker: ", work);
  const bool late = absl::IsDeadlineExceeded(frame.status());
  if (late && deadline <= hung) {
    child_.reset();
    return Annotate(frame.status(), subject);
  }
  const std::string end = child_->PostMortem();
  child_.reset();
  const std::string found =
      late ? absl::StrCat("no reply within ",
                          absl::FormatDuration(options_.wall))
           : std::string(frame.status().message());
  return MakeError(ErrorReason::kWorkerDied,
                   absl::StrCat(subject, ": ", found, "; ", end));
}

}  // namespace kiln

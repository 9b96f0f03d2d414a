#include "server/worker_process.h"

#include <unistd.h>

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/base/frame.h"
#include "proto/base/parse_bounded.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

// A start is some 50 ms; this is for a machine on its knees.
constexpr absl::Duration kStartWall = absl::Seconds(20);

// `why` begins with its subject.
absl::Status CannotStart(absl::string_view why) {
  return MakeError(
      ErrorReason::kNoToolchain,
      absl::StrCat(why, "; name the kiln-worker program with --worker"));
}

JailedChildOptions OptionsFor(const WorkerLimits& limits,
                              const WorkerStart& how,
                              const std::string& scratch_prefix) {
  JailedChildOptions options = {.program = limits.program,
                                .args = limits.args,
                                .env = limits.env,
                                .scratch_prefix = scratch_prefix};
  options.jail.levels = limits.sandbox;
  options.jail.gpu = how.gpu;
  options.jail.lowest_after_hello = how.is_first;
  options.jail.readable = limits.readable;
  options.jail.memory_bytes = limits.memory_bytes;
  // From the start of the process, which makes way once it has used half.
  options.jail.cpu_seconds = 2 * absl::ToInt64Seconds(limits.cpu) + 1;
  return options;
}

}  // namespace

absl::StatusOr<std::shared_ptr<WorkerProcess>> WorkerProcess::Start(
    const WorkerLimits& limits, const WorkerStart& how,
    const std::string& scratch_prefix) {
  absl::StatusOr<std::unique_ptr<JailedChild>> child =
      JailedChild::Start(OptionsFor(limits, how, scratch_prefix), kStartWall);
  if (ReasonOf(child.status()) == ErrorReason::kNoToolchain) {
    return CannotStart(child.status().message());
  }
  RETURN_IF_ERROR(child.status());
  auto worker = absl::WrapUnique(new WorkerProcess(limits, *std::move(child)));

  wire::WorkRequest hello;
  hello.mutable_hello();
  // One of the lowest priority gets what others leave, as it will for its jobs.
  const absl::Duration wall =
      how.is_first ? kStartWall : std::max(kStartWall, limits.wall);
  absl::StatusOr<wire::WorkReply> reply = worker->CallWithin(wall, hello);
  if (!reply.ok()) return CannotStart(reply.status().message());
  if (!reply->has_hello()) {
    return CannotStart(absl::StrCat("worker ", limits.program,
                                    ": its first reply is not a hello"));
  }
  worker->hello_ = std::move(*reply->mutable_hello());
  return std::shared_ptr<WorkerProcess>(std::move(worker));
}

bool WorkerProcess::HasFolder() const {
  return access(child_->scratch().c_str(), W_OK | X_OK) == 0;
}

absl::StatusOr<wire::WorkReply> WorkerProcess::CallWithin(
    absl::Duration wall, const wire::WorkRequest& request) {
  const std::string subject =
      absl::StrCat("worker ", limits_.program, " pid ", pid());
  const absl::StatusOr<std::string> bytes =
      Exchange(request.SerializeAsString(), SteadyIn(wall));
  if (bytes.status().code() == absl::StatusCode::kOutOfRange &&
      request.ByteSizeLong() > static_cast<uint64_t>(kMaxFrameBytes)) {
    return bytes.status();
  }
  if (bytes.status().code() == absl::StatusCode::kDeadlineExceeded) {
    return absl::DeadlineExceededError(
        absl::StrCat(subject, ": no reply within ", absl::FormatDuration(wall),
                     "; ", child_->PostMortem()));
  }
  if (!bytes.ok()) {
    return MakeError(ErrorReason::kWorkerDied,
                     absl::StrCat(subject, ": ", bytes.status().message(), "; ",
                                  child_->PostMortem()));
  }
  wire::WorkReply reply;
  if (!ParseBounded(*bytes, reply) || reply.id() != request.id()) {
    return MakeError(ErrorReason::kWorkerDied,
                     absl::StrCat(subject, ": its reply is not one to request ",
                                  request.id(), "; ", child_->PostMortem()));
  }
  return reply;
}

absl::StatusOr<std::string> WorkerProcess::Exchange(const std::string& request,
                                                    SteadyTime deadline) {
  RETURN_IF_ERROR(
      WriteFrame(child_->socket_fd(), request, {.deadline = deadline}));
  return ReadFrame(child_->socket_fd(), {.deadline = deadline});
}

}  // namespace kiln

#include "server/worker_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/base/work_error.h"
#include "server/build_identity.h"

namespace kiln {
namespace {

// Workers that may have a request: the first, and one more.
constexpr int kMaxAttempts = 2;

absl::string_view StateFor(const wire::WorkRequest& request) {
  switch (request.kind_case()) {
    case wire::WorkRequest::kPlan:
      return "planning";
    case wire::WorkRequest::kBuild:
      return "building";
    case wire::WorkRequest::kMeasure:
      return "measuring";
    case wire::WorkRequest::kHello:
    case wire::WorkRequest::KIND_NOT_SET:
      return "idle";
  }
  return "idle";
}

// The error that the worker reported. It cannot report that it ended.
absl::Status ErrorOf(const wire::WorkReply& reply) {
  const absl::Status told = StatusOf(reply.error());
  if (ReasonOf(told) != ErrorReason::kWorkerDied) return told;
  return absl::InternalError(
      absl::StrCat("worker: it answered that it had ended: ", told.message()));
}

bool IsHang(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

void WorkerLink::Drive() {
  // Ahead of the first request, so that no request waits for a start.
  const absl::Status started = Ready(std::nullopt).status();
  if (!started.ok()) {
    LogError("worker.start_failed",
             {{"worker", index_}, {"error", started.ToString()}});
    roster_.NoteFailedStart(started);
  }
  while (true) {
    roster_.SetState(index_, "idle", Digest());
    std::shared_ptr<PendingWork> work = queue_.Take(use_, in_a_row_);
    if (work == nullptr) break;
    roster_.SetState(index_, StateFor(work->request()), work->label().key);
    RunOnce(std::move(work));
  }
  roster_.Leave(index_);
}

absl::StatusOr<std::shared_ptr<WorkerProcess>> WorkerLink::Ready(
    const std::optional<WorkerUse>& use) {
  if (queue_.ended()) return PoolEnded();
  std::shared_ptr<WorkerProcess> process = roster_.process(index_);
  const bool alive = process != nullptr && process->Alive();
  if (alive && IsFit(*process, use)) return process;
  if (process != nullptr) {
    const LogFields fields = {{"worker", index_},
                              {"pid", int64_t{process->pid()}},
                              {"stage", "idle"}};
    if (alive) {
      LogInfo("worker.makes_way", fields);
    } else {
      counters_.Add(Count::kWorkersDied);
      LogWarning("worker.died", fields);
    }
    roster_.SetState(index_, "starting", Digest());
    roster_.Leave(index_);
    use_ = std::nullopt;
  }
  process.reset();  // it ends before the next one starts
  return StartProcess(use.has_value() && use->gpu);
}

bool WorkerLink::IsFit(const WorkerProcess& process,
                       const std::optional<WorkerUse>& use) const {
  if (!process.HasFolder() || process.IsWorn()) return false;
  if (!roster_.IsOfThisBuild(process.hello())) return false;
  if (!use.has_value()) return true;
  return use_.has_value() ? *use_ == *use : has_gpu_ == use->gpu;
}

absl::StatusOr<std::shared_ptr<WorkerProcess>> WorkerLink::StartProcess(
    bool gpu) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<WorkerProcess> process,
      WorkerProcess::Start(limits_,
                           {.gpu = gpu, .is_first = roster_.build() == nullptr},
                           scratch_prefix_));
  RETURN_IF_ERROR(Annotate(roster_.TakeIdentity(process->hello()),
                           absl::StrCat("worker ", limits_.program)));
  if (limits_.keeps_level)
    RETURN_IF_ERROR(roster_.TakeLevel(process->report().level, gpu));
  use_ = std::nullopt;
  has_gpu_ = gpu;
  counters_.Add(Count::kWorkersStarted);
  LogInfo("worker.started",
          {{"worker", index_},
           {"pid", int64_t{process->pid()}},
           {"sandbox", std::string(JailLevelName(process->report().level))}});
  roster_.Enter(index_, process);
  return process;
}

absl::StatusOr<wire::WorkReply> WorkerLink::RunOn(WorkerProcess& process,
                                                  const PendingWork& work) {
  in_a_row_ = use_ == work.use() ? in_a_row_ + 1 : 1;
  use_ = work.use();
  absl::StatusOr<wire::WorkReply> reply = process.Call(work.request());
  if (reply.ok() || ReasonOf(reply.status()) == ErrorReason::kTooLarge) {
    return reply;
  }
  // It is gone, whatever it died of: the next request starts another.
  roster_.Leave(index_);
  use_ = std::nullopt;
  return reply;
}

void WorkerLink::RunOnce(std::shared_ptr<PendingWork> work) {
  const auto process = Ready(work->use());
  if (queue_.ended()) return work->Answer(PoolEnded());
  if (!process.ok()) return Retry(std::move(work), process.status());
  // A start put another state in its place.
  roster_.SetState(index_, StateFor(work->request()), work->label().key);
  const WorkLabel& label = work->label();
  const std::string toolchain = ToolchainFor((*process)->hello(), label.target);
  if (!label.toolchain.empty() && label.toolchain != toolchain) {
    return work->Answer(CompilersReplaced(
        absl::StrCat(JobWords(label), "begun for ", label.toolchain, ", found ",
                     toolchain, ": the compilers were replaced; ask again")));
  }
  work->Begin();
  absl::StatusOr<wire::WorkReply> reply = RunOn(**process, *work);
  if (reply.ok()) {
    roster_.CountDone(index_);
    if (reply->has_error()) return work->Answer(ErrorOf(*reply));
    return work->Answer(std::move(reply));
  }
  if (!IsHang(reply.status()) &&
      ReasonOf(reply.status()) != ErrorReason::kWorkerDied) {
    return work->Answer(std::move(reply));
  }
  if (queue_.ended()) return work->Answer(PoolEnded());  // interrupted by us
  NoteDeath(*work, reply.status());
  const std::string why = absl::StrCat(
      JobWords(label), kMaxAttempts, " workers ended while ",
      StateFor(work->request()), "; the last: ", reply.status().message());
  Retry(std::move(work), MakeError(ErrorReason::kWorkerDied, why));
}

void WorkerLink::NoteDeath(const PendingWork& work,
                           const absl::Status& status) {
  const bool hung = IsHang(status);
  counters_.Add(hung ? Count::kWorkersHung : Count::kWorkersDied);
  LogWarning("worker.died", {{"worker", index_},
                             {"key", work.label().key.ShortHex()},
                             {"graph", work.label().graph_name},
                             {"stage", StateFor(work.request())},
                             {"hung", hung},
                             {"error", status.ToString()}});
}

void WorkerLink::Retry(std::shared_ptr<PendingWork> work, absl::Status last) {
  if (work->CountAttempt() >= kMaxAttempts) {
    return work->Answer(std::move(last));
  }
  counters_.Add(Count::kWorkersRetried);
  queue_.PutBack(std::move(work));
}

}  // namespace kiln

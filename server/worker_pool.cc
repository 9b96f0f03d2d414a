#include "server/worker_pool.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/base/work_error.h"
#include "server/detached_status.h"

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

// "job 1f09ab: graph forward_0: ".
std::string JobWords(const WorkLabel& label) {
  const std::string job = absl::StrCat("job ", label.key.ShortHex(), ": ");
  return label.graph_name.empty()
             ? job
             : absl::StrCat(job, "graph ", label.graph_name, ": ");
}

constexpr absl::string_view kFolderName = "worker";

// Removes what a daemon before this one left. What can't be removed is in
// nobody's way: no worker gets a folder that was another's.
void RemoveOldFolders(const std::string& scratch_folder) {
  std::error_code error;
  std::vector<std::filesystem::path> old;
  for (const auto& entry :
       std::filesystem::directory_iterator(scratch_folder, error)) {
    if (absl::StartsWith(entry.path().filename().string(), kFolderName)) {
      old.push_back(entry.path());
    }
  }
  for (const auto& path : old) std::filesystem::remove_all(path, error);
}

absl::Status PoolEnded() {
  return MakeError(ErrorReason::kDraining, "worker pool: the daemon ends");
}

int64_t ResidentBytes(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/statm"));
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return in ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

absl::StatusOr<const wire::WorkReply*> PendingWork::Wait() {
  MutexLock lock(&mu_);
  while (!done_) answered_.Wait(&mu_);
  if (!reply_.ok()) return Detached(reply_.status());
  return &*reply_;
}

bool PendingWork::done() const {
  MutexLock lock(&mu_);
  return done_;
}

void PendingWork::Answer(absl::StatusOr<wire::WorkReply> reply) {
  MutexLock lock(&mu_);
  reply_ = std::move(reply);
  done_ = true;
  answered_.SignalAll();
}

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Start(
    const WorkerLimits& limits, int count, const std::string& scratch_folder,
    Counters& counters) {
  auto pool =
      absl::WrapUnique(new WorkerPool(limits, count, scratch_folder, counters));
  {
    MutexLock lock(&pool->mu_);
    pool->slots_.resize(count);
  }
  RemoveOldFolders(scratch_folder);
  for (int i = 0; i < count; ++i) {
    pool->threads_.emplace_back([p = pool.get(), i] { p->Drive(i); });
  }
  RETURN_IF_ERROR(pool->WaitForFirstHello());
  return pool;
}

absl::Status WorkerPool::WaitForFirstHello() {
  MutexLock lock(&mu_);
  const auto started = [](const Slot& slot) { return slot.starts > 0; };
  while (absl::c_none_of(slots_, started)) {
    if (failed_starts_ == size()) return last_failure_;
    changed_.Wait(&mu_);
  }
  return absl::OkStatus();
}

void WorkerPool::End() {
  std::vector<std::shared_ptr<WorkerProcess>> processes;
  {
    MutexLock lock(&mu_);
    ending_ = true;
    for (const Slot& slot : slots_) {
      if (slot.process != nullptr) processes.push_back(slot.process);
    }
    changed_.SignalAll();
  }
  for (const auto& process : processes) process->Interrupt();
  processes.clear();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  MutexLock lock(&mu_);
  for (auto* list : {&builds_, &others_}) {
    for (const auto& work : *list) work->Answer(PoolEnded());
    list->clear();
  }
}

std::shared_ptr<PendingWork> WorkerPool::Submit(wire::WorkRequest request,
                                                WorkLabel label) {
  auto work =
      std::make_shared<PendingWork>(std::move(request), std::move(label));
  MutexLock lock(&mu_);
  if (ending_) {
    work->Answer(PoolEnded());
    return work;
  }
  work->request_.set_id(++last_id_);
  (work->request_.has_build() ? builds_ : others_).push_back(work);
  changed_.SignalAll();
  return work;
}

wire::HelloReply WorkerPool::identity() const {
  MutexLock lock(&mu_);
  return identity_;
}

std::shared_ptr<const BuildIdentity> WorkerPool::build() const {
  MutexLock lock(&mu_);
  return build_;
}

std::vector<WorkerView> WorkerPool::Snapshot() const {
  std::vector<WorkerView> views;
  {
    MutexLock lock(&mu_);
    for (const Slot& slot : slots_) {
      WorkerView view;
      view.index = static_cast<int>(views.size());
      view.pid = slot.process == nullptr ? 0 : slot.process->pid();
      view.state = slot.state;
      if (!slot.key.is_zero()) view.key = slot.key.ToBytes();
      view.requests_done = slot.requests_done;
      view.restarts = slot.starts > 0 ? slot.starts - 1 : 0;
      views.push_back(std::move(view));
    }
  }
  for (WorkerView& view : views) {
    if (view.pid != 0) view.resident_bytes = ResidentBytes(view.pid);
  }
  return views;
}

void WorkerPool::Drive(int index) {
  // Ahead of the first request, so that no request waits for a start.
  const absl::Status started = Ready(index).status();
  if (!started.ok()) {
    LogError("worker.start_failed",
             {{"worker", index}, {"error", started.ToString()}});
    MutexLock lock(&mu_);
    ++failed_starts_;
    last_failure_ = started;
    changed_.SignalAll();
  }
  while (true) {
    SetState(index, "idle", Digest());
    std::shared_ptr<PendingWork> work = Take();
    if (work == nullptr) break;
    SetState(index, StateFor(work->request_), work->label_.key);
    RunOnce(index, std::move(work));
  }
  std::shared_ptr<WorkerProcess> last;
  MutexLock lock(&mu_);
  last.swap(slots_[index].process);
}

std::shared_ptr<PendingWork> WorkerPool::Take() {
  MutexLock lock(&mu_);
  while (!ending_ && builds_.empty() && others_.empty()) changed_.Wait(&mu_);
  if (ending_) return nullptr;
  auto& list = builds_.empty() ? others_ : builds_;
  std::shared_ptr<PendingWork> work = std::move(list.front());
  list.pop_front();
  return work;
}

void WorkerPool::PutBack(std::shared_ptr<PendingWork> work) {
  MutexLock lock(&mu_);
  (work->request_.has_build() ? builds_ : others_).push_front(std::move(work));
  changed_.SignalAll();
}

absl::StatusOr<std::shared_ptr<WorkerProcess>> WorkerPool::Ready(int index) {
  std::shared_ptr<WorkerProcess> process;
  {
    MutexLock lock(&mu_);
    if (ending_) return PoolEnded();
    process = slots_[index].process;
  }
  const bool alive = process != nullptr && process->Alive();
  if (alive && UpToDate(*process)) return process;
  if (process != nullptr) {
    if (!alive) counters_.Add(Count::kWorkersDied);
    LogWarning(alive ? "worker.outdated" : "worker.died",
               {{"worker", index},
                {"pid", int64_t{process->pid()}},
                {"stage", "idle"}});
    SetState(index, "starting", Digest());
    MutexLock lock(&mu_);
    slots_[index].process.reset();
  }
  process.reset();  // it ends before the next one starts
  ASSIGN_OR_RETURN(
      process, WorkerProcess::Start(limits_, absl::StrCat(scratch_folder_, "/",
                                                          kFolderName, index)));
  RETURN_IF_ERROR(TakeIdentity(process->hello()));
  counters_.Add(Count::kWorkersStarted);
  LogInfo("worker.started",
          {{"worker", index}, {"pid", int64_t{process->pid()}}});
  MutexLock lock(&mu_);
  slots_[index].process = process;
  ++slots_[index].starts;
  changed_.SignalAll();
  if (ending_) process->Interrupt();
  return process;
}

bool WorkerPool::UpToDate(WorkerProcess& process) {
  if (!process.HasFolder()) return false;
  const std::string toolchains = ToolchainText(process.hello());
  MutexLock lock(&mu_);
  return toolchains == ToolchainText(identity_);
}

absl::Status WorkerPool::TakeIdentity(const wire::HelloReply& hello) {
  auto build = std::make_shared<const BuildIdentity>(BuildIdentityOf(hello));
  const std::string now = ToolchainText(hello);
  std::string before;
  {
    MutexLock lock(&mu_);
    if (build_ != nullptr && build_->compiler != build->compiler) {
      return MakeError(
          ErrorReason::kNoToolchain,
          absl::StrCat("worker ", limits_.program,
                       ": the program on disk is another compiler than at the "
                       "daemon's start; restart kilnd"));
    }
    if (build_ != nullptr) before = ToolchainText(identity_);
    if (before == now) return absl::OkStatus();
    identity_ = hello;
    build_ = build;
  }
  if (!before.empty())
    LogWarning("toolchain.replaced", {{"before", before}, {"now", now}});
  return absl::OkStatus();
}

absl::StatusOr<wire::WorkReply> WorkerPool::RunOn(WorkerProcess& process,
                                                  int index,
                                                  const PendingWork& work) {
  absl::StatusOr<wire::WorkReply> reply = process.Call(work.request_);
  if (reply.ok() || ReasonOf(reply.status()) == ErrorReason::kTooLarge) {
    return reply;
  }
  // It is gone, whatever it died of: the next request starts another.
  MutexLock lock(&mu_);
  slots_[index].process.reset();
  return reply;
}

void WorkerPool::RunOnce(int index, std::shared_ptr<PendingWork> work) {
  const auto process = Ready(index);
  if (Ending()) return PutBack(std::move(work));  // answered with the lists
  if (!process.ok()) return Retry(std::move(work), process.status());
  // A start put another state in its place.
  SetState(index, StateFor(work->request_), work->label_.key);
  const WorkLabel& label = work->label_;
  const std::string toolchain = ToolchainFor((*process)->hello(), label.target);
  if (!label.toolchain.empty() && label.toolchain != toolchain) {
    return work->Answer(MakeError(
        ErrorReason::kWorkerDied,
        absl::StrCat("job ", label.key.ShortHex(), ": begun for ",
                     label.toolchain, ", found ", toolchain,
                     ": the compilers were replaced; ask again")));
  }
  absl::StatusOr<wire::WorkReply> reply = RunOn(**process, index, *work);
  if (reply.ok()) {
    {
      MutexLock lock(&mu_);
      ++slots_[index].requests_done;
    }
    if (reply->has_error()) {
      work->Answer(StatusOf(reply->error()));
    } else {
      work->Answer(std::move(reply));
    }
    return;
  }
  const bool hung =
      reply.status().code() == absl::StatusCode::kDeadlineExceeded;
  if (!hung && ReasonOf(reply.status()) != ErrorReason::kWorkerDied) {
    work->Answer(std::move(reply));
    return;
  }
  if (Ending()) return PutBack(std::move(work));  // interrupted by us
  counters_.Add(hung ? Count::kWorkersHung : Count::kWorkersDied);
  LogWarning("worker.died", {{"worker", index},
                             {"key", work->label_.key.ShortHex()},
                             {"graph", work->label_.graph_name},
                             {"stage", StateFor(work->request_)},
                             {"hung", hung},
                             {"error", reply.status().ToString()}});
  Retry(
      std::move(work),
      MakeError(ErrorReason::kWorkerDied,
                absl::StrCat(JobWords(work->label_), kMaxAttempts,
                             " workers ended while ", StateFor(work->request_),
                             "; the last: ", reply.status().message())));
}

void WorkerPool::Retry(std::shared_ptr<PendingWork> work, absl::Status last) {
  if (++work->attempts_ >= kMaxAttempts) return work->Answer(std::move(last));
  counters_.Add(Count::kWorkersRetried);
  PutBack(std::move(work));
}

bool WorkerPool::Ending() const {
  MutexLock lock(&mu_);
  return ending_;
}

void WorkerPool::SetState(int index, absl::string_view state,
                          const Digest& key) {
  MutexLock lock(&mu_);
  slots_[index].state = std::string(state);
  slots_[index].key = key;
}

}  // namespace kiln

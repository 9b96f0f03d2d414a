#include "server/worker_roster.h"

#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

int64_t ResidentBytes(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/statm"));
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return in ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

void WorkerRoster::SetState(int index, absl::string_view state,
                            const Digest& key) {
  MutexLock lock(&mu_);
  slots_[index].state = std::string(state);
  slots_[index].key = key;
}

void WorkerRoster::CountDone(int index) {
  MutexLock lock(&mu_);
  ++slots_[index].requests_done;
}

std::shared_ptr<WorkerProcess> WorkerRoster::process(int index) const {
  MutexLock lock(&mu_);
  return slots_[index].process;
}

void WorkerRoster::Enter(int index, std::shared_ptr<WorkerProcess> process) {
  MutexLock lock(&mu_);
  if (ending_) process->Interrupt();
  slots_[index].process = std::move(process);
  ++slots_[index].starts;
  changed_.SignalAll();
}

void WorkerRoster::Leave(int index) {
  std::shared_ptr<WorkerProcess> gone;  // ends outside of the lock
  MutexLock lock(&mu_);
  gone.swap(slots_[index].process);
}

void WorkerRoster::NoteFailedStart(const absl::Status& why) {
  MutexLock lock(&mu_);
  ++failed_starts_;
  last_failure_ = why;
  changed_.SignalAll();
}

absl::Status WorkerRoster::WaitForFirst() {
  MutexLock lock(&mu_);
  const auto started = [](const Slot& slot) { return slot.starts > 0; };
  while (absl::c_none_of(slots_, started)) {
    if (failed_starts_ == size()) return last_failure_;
    changed_.Wait(&mu_);
  }
  return absl::OkStatus();
}

void WorkerRoster::End() {
  MutexLock lock(&mu_);
  ending_ = true;
  for (const Slot& slot : slots_) {
    if (slot.process != nullptr) slot.process->Interrupt();
  }
}

absl::Status WorkerRoster::TakeIdentity(const wire::HelloReply& hello) {
  auto build = std::make_shared<const BuildIdentity>(BuildIdentityOf(hello));
  const std::string now = ToolchainText(hello);
  std::string before;
  {
    MutexLock lock(&mu_);
    if (build_ != nullptr && build_->compiler != build->compiler) {
      return MakeError(
          ErrorReason::kNoToolchain,
          "the program on disk is another compiler than at the daemon's start; "
          "restart kilnd");
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

absl::Status WorkerRoster::TakeLevel(JailLevel level, bool gpu) {
  MutexLock lock(&mu_);
  JailLevel& strongest = levels_[gpu ? 1 : 0];
  if (level >= strongest) {
    strongest = level;
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kPermission,
      absl::StrCat("worker: found a sandbox of ", JailLevelName(level), ", ",
                   JailLevelName(strongest),
                   " is required, since earlier workers had it; set [workers] "
                   "sandbox to allow less"));
}

bool WorkerRoster::IsOfThisBuild(const wire::HelloReply& hello) const {
  const std::string toolchains = ToolchainText(hello);
  MutexLock lock(&mu_);
  return toolchains == ToolchainText(identity_);
}

wire::HelloReply WorkerRoster::identity() const {
  MutexLock lock(&mu_);
  return identity_;
}

std::shared_ptr<const BuildIdentity> WorkerRoster::build() const {
  MutexLock lock(&mu_);
  return build_;
}

std::vector<WorkerView> WorkerRoster::Snapshot() const {
  std::vector<WorkerView> views;
  {
    MutexLock lock(&mu_);
    for (const Slot& slot : slots_) {
      WorkerView view;
      view.index = static_cast<int>(views.size());
      if (slot.process != nullptr) {
        view.pid = slot.process->pid();
        const JailReport& jail = slot.process->report();
        view.sandbox = std::string(JailLevelName(jail.level));
        view.sandbox_lacks = jail.lacks;
      }
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

}  // namespace kiln

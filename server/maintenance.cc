#include "server/maintenance.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Task = wire::MaintainRequest::Task;

// "scrub"
std::string TaskName(Task task) {
  const std::string& name = wire::MaintainRequest::Task_Name(task);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "TASK_"));
}

}  // namespace

Maintenance::~Maintenance() {
  Stop();
  std::thread last;
  {
    MutexLock lock(&mu_);
    last.swap(thread_);
  }
  if (last.joinable()) last.join();
}

absl::Status Maintenance::Begin(Task task) {
  std::thread last;
  MutexLock lock(&mu_);
  if (report_.running()) {
    if (report_.task() == task) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(TaskName(task), ": found a ", TaskName(report_.task()),
                     " under way; wait for it, or stop it with compilectl ",
                     TaskName(report_.task()), " --stop"));
  }
  // It has told that it is done, and ends without the lock.
  last.swap(thread_);
  if (last.joinable()) last.join();
  report_.Clear();
  report_.set_task(task);
  report_.set_running(true);
  report_.set_disk_bytes_before(cache_.PhysicalBytes());
  report_.set_expected(static_cast<uint64_t>(cache_.records()));
  begun_ = SteadyNow();
  stop_ = false;
  thread_ = std::thread([this, task] { Run(task); });
  return absl::OkStatus();
}

void Maintenance::Note(const ScrubReport& found) {
  MutexLock lock(&mu_);
  report_.set_records(found.records);
  report_.set_bytes(found.bytes);
  report_.set_damaged(found.damaged);
  report_.set_unnamed(found.unnamed);
  report_.set_dangling(found.dangling);
  report_.set_other_versions(found.other_versions);
  report_.set_unreadable(found.unreadable);
}

absl::Status Maintenance::Do(Task task) {
  if (task == wire::MaintainRequest::TASK_COMPACT) return cache_.Compact(stop_);
  return cache_.Scrub(task == wire::MaintainRequest::TASK_SCRUB, stop_,
                      [this](const ScrubReport& found) { Note(found); });
}

void Maintenance::Run(Task task) {
  const absl::Status done = Do(task);
  MutexLock lock(&mu_);
  report_.set_running(false);
  report_.set_elapsed_ms(absl::ToInt64Milliseconds(Since(begun_)));
  report_.set_disk_bytes(cache_.PhysicalBytes());
  if (!done.ok()) report_.set_error(std::string(done.message()));
  LogInfo("cache.maintained", {{"task", TaskName(task)},
                               {"records", report_.records()},
                               {"damaged", report_.damaged()},
                               {"unnamed", report_.unnamed()},
                               {"dangling", report_.dangling()},
                               {"disk_bytes", report_.disk_bytes()},
                               {"error", report_.error()}});
}

wire::MaintainReply Maintenance::Report() const {
  MutexLock lock(&mu_);
  wire::MaintainReply report = report_;
  if (report.running()) {
    report.set_elapsed_ms(absl::ToInt64Milliseconds(Since(begun_)));
    report.set_disk_bytes(cache_.PhysicalBytes());
  }
  return report;
}

}  // namespace kiln

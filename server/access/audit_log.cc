#include "server/access/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);
constexpr size_t kMostSeen = 4096;  // lines, and callers, remembered
constexpr absl::string_view kAll = "*";

bool IsWithin(SteadyTime since, SteadyTime now) {
  return Between(since, now) < kMinute;
}

std::string OutcomeText(const absl::Status& outcome) {
  if (outcome.ok()) return "OK";
  const auto reason = ReasonOf(outcome);
  return reason.has_value() ? std::string(ReasonName(*reason))
                            : absl::StatusCodeToString(outcome.code());
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(
    const std::string& path, const Clock& clock) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
           0600);
  struct stat info = {};
  if (fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid())
    return absl::WrapUnique(new AuditLog(fd, clock));
  const std::string why =
      fd < 0 ? strerror(errno) : absl::StrCat("is user ", info.st_uid, "'s");
  if (fd >= 0) close(fd);
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat("audit log ", path, ": ", why));
}

AuditLog::~AuditLog() {
  {
    MutexLock lock(&mu_);
    WriteCounted(clock_.Steady(), Which::kAll);
  }
  close(fd_);
}

void AuditLog::Record(absl::string_view who, absl::string_view what,
                      absl::string_view subject, const absl::Status& outcome) {
  const auto cut = [](absl::string_view text) {
    return std::string(text.substr(0, kMostFieldBytes));
  };
  const Line line = {cut(who), cut(what), cut(subject), OutcomeText(outcome)};
  if (!outcome.ok()) {
    MutexLock lock(&mu_);
    if (!Admit(line, clock_.Steady())) return;
  }
  Write(line, 0);
}

void AuditLog::Tick() {
  MutexLock lock(&mu_);
  WriteCounted(clock_.Steady(), Which::kOver);
}

bool AuditLog::Admit(const Line& line, SteadyTime now) {
  if (!IsWithin(ticked_, now)) WriteCounted(now, Which::kOver);
  const auto seen = seen_.find(line);
  if (seen != seen_.end()) {
    ++seen->second.count;
    return false;
  }
  if (seen_.size() >= kMostSeen || spent_.size() >= kMostSeen)
    WriteCounted(now, Which::kToMakeRoom);
  if (!Spend(line.who, kMostRefusals, now) ||
      !Spend(std::string(kAll), kMostRefusalsOfAll, now)) {
    return false;
  }
  seen_[line] = {now, 0};
  return true;
}

bool AuditLog::Spend(const std::string& who, int64_t most, SteadyTime now) {
  Minute& minute = spent_.try_emplace(who, Minute{now, 0}).first->second;
  return ++minute.count <= most;
}

void AuditLog::WriteCounted(SteadyTime now, Which which) {
  ticked_ = now;
  for (auto at = seen_.begin(); at != seen_.end();) {
    const auto here = at++;
    if (which == Which::kOver && IsWithin(here->second.since, now)) continue;
    if (here->second.count > 0) Write(here->first, here->second.count);
    seen_.erase(here);
  }
  for (auto at = spent_.begin(); at != spent_.end();) {
    const auto here = at++;
    const bool stays = which == Which::kOver ||
                       (which == Which::kToMakeRoom && here->first == kAll);
    if (stays && IsWithin(here->second.since, now)) continue;
    const int64_t most =
        here->first == kAll ? kMostRefusalsOfAll : kMostRefusals;
    if (here->second.count > most)
      Write({here->first, "more", "", "REFUSED"}, here->second.count - most);
    spent_.erase(here);
  }
}

void AuditLog::Write(const Line& line, int64_t repeated) {
  nlohmann::ordered_json fields = {
      {"time",
       absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", clock_.Now(), absl::UTCTimeZone())},
      {"who", line.who},
      {"what", line.what},
      {"subject", line.subject},
      {"outcome", line.outcome}};
  if (repeated > 0) fields["repeated"] = repeated;
  // Callers may send bytes that are no UTF-8.
  const std::string bytes =
      fields.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
      "\n";
  // One write: lines of several processes do not mix.
  if (write(fd_, bytes.data(), bytes.size()) !=
      static_cast<ssize_t>(bytes.size())) {
    LogError("audit.lost", {{"error", strerror(errno)}, {"line", bytes}});
  }
}

}  // namespace kiln

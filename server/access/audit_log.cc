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
  std::vector<Counts::Counted> due;
  {
    MutexLock lock(&mu_);
    counts_.TakeAll(clock_.Steady(), due);
  }
  WriteCounted(due);
  close(fd_);
}

void AuditLog::Record(absl::string_view who, absl::string_view what,
                      absl::string_view subject, const absl::Status& outcome) {
  const auto cut = [](absl::string_view text) {
    return std::string(text.substr(0, kMostFieldBytes));
  };
  const Line line = {cut(who), cut(what), cut(subject), OutcomeText(outcome)};
  if (!outcome.ok()) {
    std::vector<Counts::Counted> due;
    bool is_written = false;
    {
      MutexLock lock(&mu_);
      is_written = counts_.Admit(line, clock_.Steady(), due);
    }
    WriteCounted(due);
    if (!is_written) return;
  }
  Write(line, 0);
}

void AuditLog::Tick() {
  std::vector<Counts::Counted> due;
  {
    MutexLock lock(&mu_);
    counts_.TakeOver(clock_.Steady(), due);
  }
  WriteCounted(due);
}

void AuditLog::WriteCounted(const std::vector<Counts::Counted>& due) {
  for (const auto& [line, is_beyond, count] : due) {
    Write(is_beyond ? Line{line.who, "more", "", "REFUSED"} : line, count);
  }
}

void AuditLog::Write(const Line& line, int64_t repeated) {
  nlohmann::ordered_json fields = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", clock_.Now(),
                                absl::UTCTimeZone())},
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

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

constexpr absl::Duration kSameWithin = absl::Minutes(1);
constexpr size_t kMaxSeen = 4096;  // kinds of lines remembered

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

AuditLog::~AuditLog() { close(fd_); }

void AuditLog::Record(absl::string_view who, absl::string_view what,
                      absl::string_view subject, const absl::Status& outcome) {
  const std::string text = OutcomeText(outcome);
  const absl::Time now = clock_.Now();
  int64_t repeated = 0;
  if (!outcome.ok()) {
    MutexLock lock(&mu_);
    if (seen_.size() >= kMaxSeen) seen_.clear();
    Seen& seen =
        seen_[absl::StrCat(who, "\n", what, "\n", subject, "\n", text)];
    // A clock that was turned back makes no gap.
    if (seen.at != absl::Time() && now >= seen.at &&
        now - seen.at < kSameWithin) {
      ++seen.since;
      return;
    }
    repeated = seen.since;
    seen = {now, 0};
  }
  nlohmann::ordered_json line = {
      {"time",
       absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now, absl::UTCTimeZone())},
      {"who", who},
      {"what", what},
      {"subject", subject},
      {"outcome", text}};
  if (repeated > 0) line["repeated"] = repeated;
  // Callers may send bytes that are no UTF-8.
  const std::string bytes =
      line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  // One write: lines of several processes do not mix.
  if (write(fd_, bytes.data(), bytes.size()) !=
      static_cast<ssize_t>(bytes.size())) {
    LogError("audit.lost", {{"error", strerror(errno)}, {"line", bytes}});
  }
}

}  // namespace kiln

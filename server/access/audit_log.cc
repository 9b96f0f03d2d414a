#include "server/access/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "proto/base/bounded_log.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr char kName[] = "audit.log";
// Of lines beyond a number, which have none of their own.
constexpr absl::string_view kRefused = "REFUSED", kDone = "OK";

std::string OutcomeText(const absl::Status& outcome) {
  if (outcome.ok()) return "OK";
  const auto reason = ReasonOf(outcome);
  return reason.has_value() ? std::string(ReasonName(*reason))
                            : absl::StatusCodeToString(outcome.code());
}

absl::StatusOr<int> OpenFile(const OpenFolder& folder) {
  const int fd =
      openat(folder.fd(), kName,
             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct stat info = {};
  if (fd >= 0 && fstat(fd, &info) == 0 && info.st_uid == geteuid()) return fd;
  const std::string why =
      fd < 0 ? strerror(errno) : absl::StrCat("is user ", info.st_uid, "'s");
  if (fd >= 0) close(fd);
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat("audit log ", folder.PathOf(kName), ": ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(
    const OpenFolder& folder, const Clock& clock) {
  ASSIGN_OR_RETURN(const int fd, OpenFile(folder));
  return absl::WrapUnique(new AuditLog(folder, fd, clock));
}

AuditLog::~AuditLog() {
  std::vector<Counts::Counted> refused, done;
  {
    MutexLock lock(&mu_);
    refusals_.TakeAll(clock_.Steady(), refused);
    often_.TakeAll(clock_.Steady(), done);
  }
  WriteCounted(refused, kRefused);
  WriteCounted(done, kDone);
  MutexLock lock(&file_mu_);
  close(fd_);
}

AuditLog::Line AuditLog::LineOf(absl::string_view who, absl::string_view what,
                                absl::string_view subject,
                                const absl::Status& outcome) {
  const auto cut = [](absl::string_view text) {
    return std::string(text.substr(0, kMostFieldBytes));
  };
  return {cut(who), cut(what), cut(subject), OutcomeText(outcome)};
}

void AuditLog::Record(absl::string_view who, absl::string_view what,
                      absl::string_view subject, const absl::Status& outcome) {
  const Line line = LineOf(who, what, subject, outcome);
  if (outcome.ok()) return Write(line, 0);
  std::vector<Counts::Counted> due;
  bool is_written = false;
  {
    MutexLock lock(&mu_);
    is_written = refusals_.Admit(line, clock_.Steady(), due);
  }
  WriteCounted(due, kRefused);
  if (is_written) Write(line, 0);
}

void AuditLog::RecordOften(absl::string_view who, absl::string_view what,
                           absl::string_view subject) {
  const Line line = LineOf(who, what, subject, absl::OkStatus());
  std::vector<Counts::Counted> due;
  bool is_written = false;
  {
    MutexLock lock(&mu_);
    is_written = often_.Admit(line, clock_.Steady(), due);
  }
  WriteCounted(due, kDone);
  if (is_written) Write(line, 0);
}

void AuditLog::Tick() {
  std::vector<Counts::Counted> refused, done;
  {
    MutexLock lock(&mu_);
    refusals_.TakeOver(clock_.Steady(), refused);
    often_.TakeOver(clock_.Steady(), done);
  }
  WriteCounted(refused, kRefused);
  WriteCounted(done, kDone);
}

void AuditLog::WriteCounted(const std::vector<Counts::Counted>& due,
                            absl::string_view beyond) {
  for (const auto& [line, is_beyond, count] : due) {
    Write(is_beyond ? Line{line.who, "more", "", std::string(beyond)} : line,
          count);
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
  const std::string text =
      fields.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
      "\n";
  MutexLock lock(&file_mu_);
  FollowName();
  // A line that was cut short has no end: what follows begins anew.
  const std::string bytes = is_cut_ ? absl::StrCat("\n", text) : text;
  // One write: lines of several processes do not mix.
  errno = 0;
  const ssize_t written = write(fd_, bytes.data(), bytes.size());
  if (written == static_cast<ssize_t>(bytes.size())) {
    is_cut_ = false;
    return;
  }
  const std::string error = errno != 0 ? strerror(errno) : "cut short";
  if (written > 0) is_cut_ = true;
  LogError("audit.lost", {{"error", error}, {"line", text}});
}

void AuditLog::FollowName() {
  struct stat named = {}, open_one = {};
  if (fstatat(folder_.fd(), kName, &named, 0) == 0 &&
      fstat(fd_, &open_one) == 0 && named.st_dev == open_one.st_dev &&
      named.st_ino == open_one.st_ino) {
    return;
  }
  const absl::StatusOr<int> fd = OpenFile(folder_);
  if (!fd.ok()) {
    LogBounded("audit.not_reopened", folder_.PathOf(kName),
               fd.status().message());
    return;
  }
  close(std::exchange(fd_, *fd));
  is_cut_ = false;
}

}  // namespace kiln

#ifndef KILN_SERVER_ACCESS_AUDIT_LOG_H_
#define KILN_SERVER_ACCESS_AUDIT_LOG_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"

namespace kiln {

// Who did what, and how it ended: one JSON object a line, appended and never
// changed, for its owner alone.
//
//   {"time":"2026-01-31T09:12:44.031Z","who":"token:ci","what":"purge",
//    "subject":"team-a 9c41d2","outcome":"OK"}
//
// A refusal that says the same as one of the last minute is counted instead, and
// the next of its kind says how many came between ("repeated":17): a flood of
// refused calls does not fill the disk. Thread-safe.
class AuditLog {
 public:
  // UNAVAILABLE STORAGE when the file cannot be opened or is another user's.
  // `clock` outlives the log.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        const Clock& clock);

  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;
  ~AuditLog();

  // `subject` must hold no secret. A line that cannot be written is told to the
  // daemon's own log.
  void Record(absl::string_view who, absl::string_view what,
              absl::string_view subject, const absl::Status& outcome)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Seen {
    absl::Time at;
    int64_t since = 0;  // of the same, not written
  };

  AuditLog(int fd, const Clock& clock) : fd_(fd), clock_(clock) {}

  const int fd_;
  const Clock& clock_;
  Mutex mu_;
  absl::flat_hash_map<std::string, Seen> seen_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_AUDIT_LOG_H_

#ifndef KILN_SERVER_ACCESS_AUDIT_LOG_H_
#define KILN_SERVER_ACCESS_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/clock.h"
#include "proto/base/line_counts.h"
#include "proto/base/mutex.h"
#include "server/access/open_folder.h"

namespace kiln {

// Who did what, and how it ended: one JSON object a line, appended and never
// changed, for its owner alone.
//
//   {"time":"2026-01-31T09:12:44.031Z","who":"token:ci","what":"purge",
//    "subject":"team-a 9c41d2","outcome":"OK"}
//
// A refusal that says the same as one of the last minute is counted instead, and a
// line a minute later says how many came after it ("repeated":17). Who is refused
// kMostRefusals times in a minute, each time for something else, is counted too
// ("what":"more"); so are all together beyond kMostRefusalsOfAll, as "*". A field
// is cut at kMostFieldBytes. So a flood of refused calls fills neither the disk nor
// the memory. What goes well is always written, but for what RecordOften counts. Lines
// have the wall's time; minutes are the steady clock's, which nobody sets. Thread-safe.
//
// The file, `audit.log` in the folder, may be renamed while it is written: the next line
// goes to a new one of that name. One that is copied and then truncated loses what came between. A line that a
// full disk cut short is told to the daemon's own log, whole; the next one begins on
// a line of its own.
class AuditLog {
 public:
  static constexpr int64_t kMostRefusals = 60;  // lines a minute of one caller
  static constexpr int64_t kMostRefusalsOfAll = 600;
  static constexpr size_t kMostFieldBytes = 256;

  // UNAVAILABLE STORAGE when the file cannot be opened or is another user's.
  // `clock` outlives the log.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(
      const OpenFolder& folder, const Clock& clock);

  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;
  ~AuditLog();

  // `subject` must hold no secret. A line that cannot be written is told to the
  // daemon's own log.
  void Record(absl::string_view who, absl::string_view what,
              absl::string_view subject, const absl::Status& outcome)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The same, of an act that goes well and that one caller may do a thousand times a
  // minute: its lines are counted beyond the same numbers as refusals are, apart from
  // those.
  void RecordOften(absl::string_view who, absl::string_view what,
                   absl::string_view subject) ABSL_LOCKS_EXCLUDED(mu_);

  // Writes what was counted and whose minute is over. For whoever has a clock.
  void Tick() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Line {
    std::string who, what, subject, outcome;

    template <typename H>
    friend H AbslHashValue(H h, const Line& l) {
      return H::combine(std::move(h), l.who, l.what, l.subject, l.outcome);
    }
    friend bool operator==(const Line&, const Line&) = default;
  };
  using Counts = LineCounts<Line>;

  AuditLog(const OpenFolder& folder, int fd, const Clock& clock)
      : folder_(folder), clock_(clock), fd_(fd) {}

  static Line LineOf(absl::string_view who, absl::string_view what,
                     absl::string_view subject, const absl::Status& outcome);
  // `beyond` is the outcome of what has no line of its own.
  void WriteCounted(const std::vector<Counts::Counted>& due,
                    absl::string_view beyond);
  void Write(const Line& line, int64_t repeated) ABSL_LOCKS_EXCLUDED(file_mu_);
  // Opens the name anew where it is another file's, or none's.
  void FollowName() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mu_);

  const OpenFolder folder_;
  const Clock& clock_;
  Mutex file_mu_;
  int fd_ ABSL_GUARDED_BY(file_mu_);
  bool is_cut_ ABSL_GUARDED_BY(file_mu_) = false;  // its last line has no end
  Mutex mu_;
  Counts refusals_ ABSL_GUARDED_BY(mu_){
      {.of_one = kMostRefusals, .of_all = kMostRefusalsOfAll}};
  Counts often_ ABSL_GUARDED_BY(mu_){
      {.of_one = kMostRefusals, .of_all = kMostRefusalsOfAll}};
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_AUDIT_LOG_H_

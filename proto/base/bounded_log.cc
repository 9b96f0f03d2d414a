#include "proto/base/bounded_log.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "proto/base/line_counts.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"

namespace kiln {
namespace {

struct Line {
  std::string who;  // is the event
  std::string from, text;

  template <typename H>
  friend H AbslHashValue(H h, const Line& l) {
    return H::combine(std::move(h), l.who, l.from, l.text);
  }
  friend bool operator==(const Line&, const Line&) = default;
};
using Counts = LineCounts<Line>;

// Of the process, as its log is.
struct BoundedState {
  Mutex mu;
  // Events are few, and each has a bound.
  Counts counts ABSL_GUARDED_BY(mu){
      {.of_one = kMostBoundedLines, .of_all = INT64_MAX}};
};

BoundedState& State() {
  static BoundedState* const state = new BoundedState;  // as the log's
  return *state;
}

void LogDue(const std::vector<Counts::Counted>& due) {
  for (const Counts::Counted& counted : due) {
    const Line& line = counted.line;
    if (counted.is_beyond) {
      LogWarning(line.who, {{"more", counted.count}});
    } else {
      LogWarning(line.who, {{"from", line.from},
                            {"text", line.text},
                            {"repeated", counted.count}});
    }
  }
}

}  // namespace

void LogBounded(absl::string_view event, absl::string_view from,
                absl::string_view text) {
  const Line line = {std::string(event),
                     std::string(from.substr(0, kMostBoundedBytes)),
                     std::string(text.substr(0, kMostBoundedBytes))};
  std::vector<Counts::Counted> due;
  bool is_written = false;
  {
    BoundedState& state = State();
    MutexLock lock(&state.mu);
    is_written = state.counts.Admit(line, SteadyNow(), due);
  }
  LogDue(due);
  if (is_written) LogWarning(event, {{"from", line.from}, {"text", line.text}});
}

void LogCounted(SteadyTime now) {
  std::vector<Counts::Counted> due;
  {
    BoundedState& state = State();
    MutexLock lock(&state.mu);
    state.counts.TakeOver(now, due);
  }
  LogDue(due);
}

}  // namespace kiln

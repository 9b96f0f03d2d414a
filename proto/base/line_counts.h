#ifndef KILN_PROTO_BASE_LINE_COUNTS_H_
#define KILN_PROTO_BASE_LINE_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Which lines a log writes of those that strangers can cause without end. One that
// says the same as one of the last minute is counted instead. So are the lines of a
// minute beyond a number: of one `who`, each saying something else, and of all
// together. What was counted is due when the minute is over.
//
// `Line`: hashed and compared; has a `who`, a text. One thread.
template <typename Line>
class LineCounts {
 public:
  struct Limits {
    int64_t of_one = 0;  // lines a minute
    int64_t of_all = 0;
  };
  // Lines that were not written.
  struct Counted {
    Line
        line;  // that they equal; where they are those beyond a number, its who alone
    bool is_beyond = false;
    int64_t count = 0;
  };
  static constexpr char kAll[] = "*";  // who, of all together

  explicit LineCounts(const Limits& limits) : limits_(limits) {}

  // Whether the line is to be written now. Appends to `due` what is to be written
  // before it.
  bool Admit(const Line& line, SteadyTime now, std::vector<Counted>& due) {
    if (!IsWithin(looked_, now)) TakeOver(now, due);
    const auto seen = seen_.find(line);
    if (seen != seen_.end()) {
      ++seen->second.count;
      return false;
    }
    if (seen_.size() >= kMostSeen || spent_.size() >= kMostSeen)
      Take(now, Which::kToMakeRoom, due);
    if (!Spend(line.who, limits_.of_one, now) ||
        !Spend(kAll, limits_.of_all, now)) {
      return false;
    }
    seen_[line] = {now, 0};
    return true;
  }

  // Appends what was counted and whose minute is over.
  void TakeOver(SteadyTime now, std::vector<Counted>& due) {
    Take(now, Which::kOver, due);
  }
  // Appends all that was counted.
  void TakeAll(SteadyTime now, std::vector<Counted>& due) {
    Take(now, Which::kAll, due);
  }

 private:
  static constexpr size_t kMostSeen = 4096;  // lines, and who, remembered
  // Since a line was written.
  struct Minute {
    SteadyTime since;
    int64_t count = 0;
  };
  enum class Which : uint8_t {
    kOver,        // whose minute is over
    kToMakeRoom,  // all but what is counted of all together
    kAll,
  };

  static bool IsWithin(SteadyTime since, SteadyTime now) {
    return Between(since, now) < absl::Minutes(1);
  }

  bool Spend(const std::string& who, int64_t most, SteadyTime now) {
    Minute& minute = spent_.try_emplace(who, Minute{now, 0}).first->second;
    return ++minute.count <= most;
  }

  void Take(SteadyTime now, Which which, std::vector<Counted>& due) {
    looked_ = now;
    for (auto at = seen_.begin(); at != seen_.end();) {
      const auto here = at++;
      if (which == Which::kOver && IsWithin(here->second.since, now)) continue;
      if (here->second.count > 0)
        due.push_back({here->first, false, here->second.count});
      seen_.erase(here);
    }
    for (auto at = spent_.begin(); at != spent_.end();) {
      const auto here = at++;
      const bool is_all = here->first == kAll;
      const bool stays =
          which == Which::kOver || (which == Which::kToMakeRoom && is_all);
      if (stays && IsWithin(here->second.since, now)) continue;
      const int64_t beyond =
          here->second.count - (is_all ? limits_.of_all : limits_.of_one);
      if (beyond > 0) {
        Counted counted = {.line = {}, .is_beyond = true, .count = beyond};
        counted.line.who = here->first;
        due.push_back(std::move(counted));
      }
      spent_.erase(here);
    }
  }

  const Limits limits_;
  SteadyTime looked_;
  // Of lines that were written; `count` says how many came after.
  absl::flat_hash_map<Line, Minute> seen_;
  // Lines of this minute, those beyond the most included.
  absl::flat_hash_map<std::string, Minute> spent_;
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_LINE_COUNTS_H_

#include "server/quarantine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// What ends first makes way.
template <typename Map>
void KeepTo(int most, Map& map) {
  if (static_cast<int>(map.size()) <= most) return;
  map.erase(std::min_element(map.begin(), map.end(),
                             [](const auto& a, const auto& b) {
                               return a.second.until < b.second.until;
                             }));
}

std::string SecondsUntil(SteadyTime until, SteadyTime now) {
  return absl::FormatDuration(
      absl::Ceil(Between(now, until), absl::Seconds(1)));
}

}  // namespace

absl::Status Quarantine::Check(const Digest& id, absl::string_view caller) {
  const SteadyTime now = clock_.Steady();
  MutexLock lock(&mu_);
  ForgetWhatHasPassed();
  const auto job = jobs_.find(id);
  if (job != jobs_.end()) {
    const QuarantinedJob& found = job->second;
    return MakeError(
        ErrorReason::kJobPoisoned,
        absl::StrCat("job ", found.key.ShortHex(),
                     found.graph_name.empty()
                         ? ""
                         : absl::StrCat(": graph ", found.graph_name),
                     ": it ended two workers; it is not tried again before ",
                     SecondsUntil(found.until, now),
                     " have passed, or `compilectl quarantine --clear ",
                     found.key.ShortHex(), "`"));
  }
  const auto count = callers_.find(caller);
  if (count == callers_.end() || count->second.jobs < kJobsACaller) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kJobPoisoned,
      absl::StrCat("caller ", caller, ": ", count->second.jobs,
                   " of its jobs ended two workers each; it begins no other "
                   "before ",
                   SecondsUntil(count->second.until, now),
                   " have passed, or `compilectl quarantine --clear-all`"));
}

void Quarantine::Add(const Digest& id, QuarantinedJob job) {
  MutexLock lock(&mu_);
  ForgetWhatHasPassed();
  job.until = After(clock_.Steady(), time_);
  if (!job.caller.empty()) {
    CallerCount& count = callers_[job.caller];
    ++count.jobs;
    count.until = job.until;
    KeepTo(kMaxCallers, callers_);
  }
  jobs_[id] = std::move(job);
  KeepTo(kMaxJobs, jobs_);
}

std::vector<QuarantinedJob> Quarantine::List() {
  std::vector<QuarantinedJob> list;
  MutexLock lock(&mu_);
  ForgetWhatHasPassed();
  for (const auto& [id, job] : jobs_) list.push_back(job);
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.until > b.until;
  });
  return list;
}

int Quarantine::Clear(absl::string_view key_prefix_hex) {
  MutexLock lock(&mu_);
  ForgetWhatHasPassed();
  const int before = static_cast<int>(jobs_.size());
  std::erase_if(jobs_, [&](const auto& entry) {
    const QuarantinedJob& job = entry.second;
    if (!absl::StartsWith(job.key.Hex(), key_prefix_hex)) return false;
    callers_.erase(job.caller);
    return true;
  });
  if (key_prefix_hex.empty()) callers_.clear();
  return before - static_cast<int>(jobs_.size());
}

void Quarantine::ForgetWhatHasPassed() {
  const SteadyTime now = clock_.Steady();
  const auto passed = [now](const auto& entry) {
    return entry.second.until <= now;
  };
  std::erase_if(jobs_, passed);
  std::erase_if(callers_, passed);
}

}  // namespace kiln

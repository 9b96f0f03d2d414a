#include "server/pass_times.h"

#include "absl/strings/str_cat.h"

namespace kiln {

void PassTimes::Add(const wire::WorkReply& reply) {
  MutexLock lock(&mu_);
  for (const wire::PassTiming& timing : reply.timings()) {
    microseconds_[timing.pass()] += timing.microseconds();
  }
}

std::vector<std::pair<std::string, int64_t>> PassTimes::Snapshot() const {
  std::vector<std::pair<std::string, int64_t>> times;
  MutexLock lock(&mu_);
  for (const auto& [pass, microseconds] : microseconds_) {
    times.emplace_back(absl::StrCat("plan.us.", pass), microseconds);
  }
  return times;
}

}  // namespace kiln

#ifndef KILN_CACHE_FAR_FAR_BUDGET_H_
#define KILN_CACHE_FAR_FAR_BUDGET_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/steady_time.h"

namespace kiln {

// What each namespace has in a far store, as far as this process wrote it. A store
// does not tell whose its bytes are, but they live for the same time: so a namespace
// has what was written in that time, and that is bounded. One thread.
class FarBudget {
 public:
  // Bytes by namespace; "*": of each that is not named; none: no bound. Records
  // live for `life`.
  FarBudget(std::map<std::string, int64_t> budgets, absl::Duration life);

  // Whether a namespace may write so many bytes more.
  bool Fits(absl::string_view cache_namespace, int64_t bytes, SteadyTime now);
  // It wrote them.
  void Spend(absl::string_view cache_namespace, int64_t bytes, SteadyTime now);

 private:
  // A record counts for its life and a part of it more.
  static constexpr int kParts = 32;
  struct Written {
    std::array<int64_t, kParts> bytes = {};  // by part of time
    int64_t last_part = 0;
    int64_t total = 0;
  };
  int64_t PartOf(SteadyTime now) const;
  // What has run out by then is forgotten.
  Written& At(absl::string_view cache_namespace, SteadyTime now);

  const std::map<std::string, int64_t> budgets_;
  const absl::Duration part_;
  const SteadyTime begun_ = SteadyNow();
  std::map<std::string, Written, std::less<>> written_;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_BUDGET_H_

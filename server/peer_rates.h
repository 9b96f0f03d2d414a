#ifndef KILN_SERVER_PEER_RATES_H_
#define KILN_SERVER_PEER_RATES_H_

#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// How often something may be done: so often at once, and so often a second after that.
struct Rate {
  double at_once = 0;
  double a_second = 0;
};

// What one has left of a rate. Whoever has it looks after locks.
class RateLeft {
 public:
  RateLeft(const Rate& rate, SteadyTime now)
      : left_(rate.at_once), counted_(now) {}
  // Whether it may be done once more; it is counted then.
  bool Take(const Rate& rate, SteadyTime now);
  // Whether nothing is missing: as one that was never asked.
  bool IsWhole(const Rate& rate, SteadyTime now);

 private:
  void Count(const Rate& rate, SteadyTime now);

  double left_;
  SteadyTime counted_;
};

// A rate for each of many peers. One that has all of its rate again is forgotten.
// With kMostPeers that have not, others are not counted. Thread-safe.
class PeerRates {
 public:
  static constexpr size_t kMostPeers = 65536;

  // `clock`, whose steady time counts, outlives this.
  PeerRates(const Rate& each, const Clock& clock)
      : each_(each), clock_(clock) {}

  bool Take(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);
  size_t known_peers() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Makes room for more; seldom, since it looks at all of them.
  void Sweep(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Rate each_;
  const Clock& clock_;
  mutable Mutex mu_;
  absl::flat_hash_map<std::string, RateLeft> peers_ ABSL_GUARDED_BY(mu_);
  size_t next_sweep_ ABSL_GUARDED_BY(mu_) = 1024;  // with so many
  SteadyTime swept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_PEER_RATES_H_

#include "server/peer_rates.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr absl::Duration kSweepPause = absl::Seconds(1);

}  // namespace

void RateLeft::Count(const Rate& rate, SteadyTime now) {
  const double passed = absl::ToDoubleSeconds(Between(counted_, now));
  left_ = std::min(rate.at_once, left_ + passed * rate.a_second);
  counted_ = now;
}

bool RateLeft::Take(const Rate& rate, SteadyTime now) {
  Count(rate, now);
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

bool RateLeft::IsWhole(const Rate& rate, SteadyTime now) {
  Count(rate, now);
  return left_ >= rate.at_once;
}

void PeerRates::Sweep(SteadyTime now) {
  if (peers_.size() >= kMostPeers && Between(swept_, now) < kSweepPause) return;
  swept_ = now;
  absl::erase_if(peers_,
                 [&](auto& known) { return known.second.IsWhole(each_, now); });
  next_sweep_ = std::clamp(2 * peers_.size(), next_sweep_, kMostPeers);
}

bool PeerRates::Take(const std::string& peer) {
  const SteadyTime now = clock_.Steady();
  MutexLock lock(&mu_);
  if (peers_.size() >= next_sweep_) Sweep(now);
  const auto known = peers_.find(peer);
  if (known != peers_.end()) return known->second.Take(each_, now);
  if (peers_.size() >= kMostPeers) return true;
  return peers_.try_emplace(peer, each_, now).first->second.Take(each_, now);
}

size_t PeerRates::known_peers() const {
  MutexLock lock(&mu_);
  return peers_.size();
}

}  // namespace kiln

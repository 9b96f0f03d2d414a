#include "cache/far/redis_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Redirects and dead servers that one call follows.
constexpr int kMaxTries = 5;
// What one server may take of the time for all, when connections are made ready.
constexpr absl::Duration kConnectTime = absl::Milliseconds(500);
// A server that is gone without a successor yet is no reason to ask all others
// with each call.
constexpr absl::Duration kLearnEvery = absl::Milliseconds(250);

// Of the first reply that sends the caller elsewhere.
std::optional<Redirect> RedirectIn(const std::vector<RespValue>& replies,
                                   const HostPort& asked) {
  for (const RespValue& reply : replies) {
    if (!reply.is(RespValue::Kind::kError)) continue;
    if (auto redirect = ParseRedirect(reply.text, asked)) return redirect;
  }
  return std::nullopt;
}

// ASKING before each, since it counts for one command; its replies are dropped.
absl::StatusOr<std::vector<RespValue>> RunAsking(
    RedisNode& node, absl::Span<const std::string> commands,
    SteadyTime deadline) {
  const std::string asking = EncodeCommand({"ASKING"});
  std::vector<std::string> all;
  for (const std::string& command : commands) {
    all.push_back(asking);
    all.push_back(command);
  }
  ASSIGN_OR_RETURN(std::vector<RespValue> both, node.Run(all, deadline));
  std::vector<RespValue> replies;
  for (size_t i = 1; i < both.size(); i += 2)
    replies.push_back(std::move(both[i]));
  return replies;
}

bool IsNoCluster(const RespValue& reply) {
  return reply.is(RespValue::Kind::kError) &&
         (absl::StrContains(reply.text, "cluster support disabled") ||
          absl::StartsWith(reply.text, "NOPERM") ||
          absl::StrContains(reply.text, "unknown command"));
}

}  // namespace

RedisCluster::RedisCluster(std::vector<HostPort> seeds, RedisOptions options)
    : seeds_(std::move(seeds)), options_(std::move(options)) {}

absl::Status RedisCluster::Connect(SteadyTime deadline) {
  RETURN_IF_ERROR(LearnSlots(nullptr, deadline));
  std::vector<HostPort> places;
  {
    MutexLock lock(&mu_);
    places = slots_.nodes();
  }
  if (places.size() > kMostKept) places.resize(kMostKept);
  absl::Status first;
  for (const HostPort& place : places) {
    first.Update(NodeAt(place)->Connect(
        std::min(deadline, After(SteadyNow(), kConnectTime))));
  }
  return first;
}

absl::StatusOr<std::vector<RespValue>> RedisCluster::Run(
    absl::string_view key, absl::Span<const std::string> commands,
    SteadyTime deadline) {
  const int slot = SlotOf(key);
  ASSIGN_OR_RETURN(Node node, NodeFor(slot, deadline));
  bool asking = false;
  for (int tries = 1;; ++tries) {
    auto replies = asking ? RunAsking(*node, commands, deadline)
                          : node->Run(commands, deadline);
    const bool last = tries == kMaxTries;
    if (!replies.ok()) {
      if (last || TimeLeft(deadline) == absl::ZeroDuration()) return replies;
      if (!LearnSlots(node, deadline).ok()) return replies;
      ASSIGN_OR_RETURN(const Node other, NodeFor(slot, deadline));
      if (other == node) return replies;
      node = other;
      asking = false;
      continue;
    }
    const auto redirect = RedirectIn(*replies, node->place());
    if (!redirect.has_value() || last) return replies;
    node = NodeAt(redirect->to);
    asking = redirect->ask;
    if (asking) continue;
    // One slot that moved is seldom alone.
    IgnoreBecause(LearnSlots(nullptr, deadline), "the redirect is enough");
    MutexLock lock(&mu_);
    slots_.Move(redirect->slot, redirect->to);
    known_ = true;
  }
}

absl::StatusOr<RedisCluster::Node> RedisCluster::NodeFor(int slot,
                                                         SteadyTime deadline) {
  bool known = false;
  {
    MutexLock lock(&mu_);
    known = known_;
  }
  if (!known) RETURN_IF_ERROR(LearnSlots(nullptr, deadline));
  HostPort place = seeds_.front();
  {
    MutexLock lock(&mu_);
    const HostPort* owner = slots_.NodeOf(slot);
    if (owner != nullptr) {
      place = *owner;
    } else if (!slots_.nodes().empty()) {
      place = slots_.nodes().front();
    }
  }
  return NodeAt(place);
}

RedisCluster::Node RedisCluster::NodeAt(const HostPort& place) {
  Node dropped;  // closed without the lock
  MutexLock lock(&mu_);
  Kept& kept = nodes_[place];
  if (kept.node == nullptr)
    kept.node = std::make_shared<RedisNode>(place, options_, resolver_);
  kept.used = ++uses_;
  const Node node = kept.node;
  if (nodes_.size() > kMostKept) {
    const auto oldest = std::min_element(nodes_.begin(), nodes_.end(),
                                         [](const auto& a, const auto& b) {
                                           return a.second.used < b.second.used;
                                         });
    dropped = std::move(oldest->second.node);
    nodes_.erase(oldest);
  }
  return node;
}

absl::Status RedisCluster::LearnSlots(const Node& except, SteadyTime deadline) {
  if (!BeginLearning()) return absl::OkStatus();
  const std::string ask = EncodeCommand({"CLUSTER", "SLOTS"});
  absl::Status last = MakeError(ErrorReason::kStorage, "redis: no other node");
  for (const HostPort& place : Places()) {
    const Node node = NodeAt(place);
    if (node == except) continue;
    const auto replies = node->Run({ask}, deadline);
    last = replies.status();
    if (!replies.ok()) continue;
    const RespValue& reply = replies->front();
    if (IsNoCluster(reply)) {
      MutexLock lock(&mu_);
      slots_ = SlotMap();
      for (int slot = 0; slot < kRedisSlots; ++slot) slots_.Move(slot, place);
      known_ = true;
      return absl::OkStatus();
    }
    auto slots = SlotMap::Parse(reply, place);
    last = slots.status();
    if (!slots.ok() || slots->nodes().empty()) continue;
    Take(*std::move(slots));
    return absl::OkStatus();
  }
  return last;
}

bool RedisCluster::BeginLearning() {
  MutexLock lock(&mu_);
  const SteadyTime now = SteadyNow();
  if (known_ && now < After(learned_, kLearnEvery)) return false;
  learned_ = now;
  return true;
}

void RedisCluster::Take(SlotMap slots) {
  std::map<HostPort, Kept> dropped;  // closed without the lock
  MutexLock lock(&mu_);
  slots_ = std::move(slots);
  known_ = true;
  dropped.swap(nodes_);
  for (const HostPort& place : slots_.nodes()) {
    const auto found = dropped.find(place);
    if (found != dropped.end()) nodes_.insert(*found);
  }
}

// Those that serve now, then the seeds.
std::vector<HostPort> RedisCluster::Places() const {
  MutexLock lock(&mu_);
  std::vector<HostPort> places = slots_.nodes();
  for (const HostPort& seed : seeds_) {
    if (std::find(places.begin(), places.end(), seed) == places.end())
      places.push_back(seed);
  }
  return places;
}

}  // namespace kiln

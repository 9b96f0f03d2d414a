#include "cache/far/redis_node.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Connections kept open. More calls at once open more, for that call alone.
constexpr size_t kMaxIdle = 8;
// Of those, opened before they are needed.
constexpr size_t kReadyIdle = 2;

}  // namespace

RedisNode::RedisNode(HostPort place, const RedisOptions& options,
                     HostResolver& resolver)
    : place_(std::move(place)), options_(options), resolver_(resolver) {}

absl::StatusOr<std::vector<RespValue>> RedisNode::Run(
    absl::Span<const std::string> commands, SteadyTime deadline) {
  const absl::Duration given = TimeLeft(deadline);
  if (given == absl::ZeroDuration())
    return absl::DeadlineExceededError("redis: no time left to ask");
  RETURN_IF_ERROR(breaker_.MayAsk());
  auto replies = RunOnce(commands, deadline);
  if (replies.ok()) {
    breaker_.Answered();
  } else if (!absl::IsDeadlineExceeded(replies.status()) ||
             given >= kFairTime) {
    breaker_.KeptSilent(replies.status());
  }
  return replies;
}

absl::StatusOr<std::vector<RespValue>> RedisNode::RunOnce(
    absl::Span<const std::string> commands, SteadyTime deadline) {
  const std::string where = absl::StrCat("redis ", place_.Text());
  if (Connection idle = TakeIdle(); idle != nullptr) {
    auto replies = idle->Run(commands, deadline);
    if (replies.ok()) {
      GiveBack(std::move(idle));
      return replies;
    }
    // The server may have closed it while it was idle, and with it all others.
    if (!absl::IsUnavailable(replies.status()))
      return Annotate(replies.status(), where);
    while (TakeIdle() != nullptr) {
    }
  }
  ASSIGN_OR_RETURN(Connection opened, Open(deadline));
  auto replies = opened->Run(commands, deadline);
  if (!replies.ok()) return Annotate(replies.status(), where);
  GiveBack(std::move(opened));
  return replies;
}

absl::Status RedisNode::Connect(SteadyTime deadline) {
  while (!HasIdle(kReadyIdle)) {
    ASSIGN_OR_RETURN(Connection opened, Open(deadline));
    GiveBack(std::move(opened));
  }
  return absl::OkStatus();
}

absl::StatusOr<RedisNode::Connection> RedisNode::Open(SteadyTime deadline) {
  const std::string where = absl::StrCat("redis ", place_.Text());
  const auto addresses = resolver_.Resolve(place_, deadline);
  if (!addresses.ok()) return Annotate(addresses.status(), where);
  auto opened = RedisConnection::Open(place_, *addresses, options_, deadline);
  if (!opened.ok()) return Annotate(opened.status(), where);
  return opened;
}

bool RedisNode::HasIdle(size_t due) {
  MutexLock lock(&mu_);
  return idle_.size() >= due;
}

RedisNode::Connection RedisNode::TakeIdle() {
  MutexLock lock(&mu_);
  if (idle_.empty()) return nullptr;
  Connection taken = std::move(idle_.back());
  idle_.pop_back();
  return taken;
}

void RedisNode::GiveBack(Connection connection) {
  MutexLock lock(&mu_);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(connection));
}

}  // namespace kiln

#include "server/unread_calls.h"

#include <utility>

#include "proto/base/bounded_log.h"

namespace kiln {
namespace {

// How often unread calls are looked for, in write timeouts.
constexpr int kLooksATimeout = 4;

}  // namespace

UnreadCalls::UnreadCalls(absl::Duration write_timeout,
                         ConnectionWatch& at_socket, Counters& counters)
    : write_timeout_(write_timeout),
      at_socket_(at_socket),
      counters_(counters),
      thread_([this] { Loop(); }) {}

UnreadCalls::~UnreadCalls() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void UnreadCalls::HearReset(const Write& write) {
  at_socket_.HearReset(write.context_.peer());
  // gRPC ends the call behind this, by atomics of its own; the lock says so to all that
  // read this program alone, as ThreadSanitizer does.
  MutexLock lock(&mu_);
}

void UnreadCalls::Begin(Write& write) {
  const SteadyTime now = SteadyNow();
  MutexLock lock(&mu_);
  write.begun_ = now;
  write.place_ = writes_.insert(writes_.end(), &write);
  write.under_way_ = true;
}

void UnreadCalls::End(Write& write) {
  MutexLock lock(&mu_);
  Remove(write);
}

void UnreadCalls::Leave(Write& write) {
  MutexLock lock(&mu_);
  Remove(write);
  // Cancelling may end a call on the thread that cancels it.
  if (std::this_thread::get_id() == thread_.get_id()) return;
  while (cancelling_ == &write) cancelled_.Wait(&mu_);
}

void UnreadCalls::Remove(Write& write) {
  if (!std::exchange(write.under_way_, false)) return;
  writes_.erase(write.place_);
}

UnreadCalls::Write* UnreadCalls::AwaitUnread() {
  while (!ending_) {
    if (!writes_.empty() && Since(writes_.front()->begun_) >= write_timeout_) {
      Write* const oldest = writes_.front();
      Remove(*oldest);
      return oldest;
    }
    changed_.WaitFor(&mu_, write_timeout_ / kLooksATimeout);
  }
  return nullptr;
}

void UnreadCalls::Loop() {
  while (true) {
    Write* unread = nullptr;
    {
      MutexLock lock(&mu_);
      unread = AwaitUnread();
      if (unread == nullptr) return;
      cancelling_ = unread;
    }
    counters_.Add(Count::kCallsUnread);
    LogBounded("call.unread", "", absl::FormatDuration(write_timeout_));
    unread->context_.TryCancel();
    MutexLock lock(&mu_);
    cancelling_ = nullptr;
    cancelled_.SignalAll();
  }
}

}  // namespace kiln

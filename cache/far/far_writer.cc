#include "cache/far/far_writer.h"

#include <algorithm>
#include <utility>

#include "cache/entry_format.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Writes in the queue, whatever their size.
constexpr size_t kMaxQueued = 4096;
// What one write may take, and what all that are left at the end may.
constexpr absl::Duration kWriteTime = absl::Seconds(2);
constexpr absl::Duration kFlushTime = absl::Seconds(2);

int64_t BytesOf(const FarWriter::Write& write) {
  if (write.payload == nullptr) return 0;
  return static_cast<int64_t>(write.payload->size() + write.hint.size());
}

}  // namespace

FarWriter::FarWriter(FarStore& store, std::shared_ptr<const KeyRing> keys,
                     const Limits& limits, FarCounts& counts)
    : store_(store),
      keys_(std::move(keys)),
      limits_(limits),
      budget_(limits.namespace_budgets, limits.ttl),
      counts_(counts),
      thread_([this] { Loop(); }) {}

FarWriter::~FarWriter() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    end_ = After(SteadyNow(), kFlushTime);
    changed_.SignalAll();
  }
  thread_.join();
}

void FarWriter::Queue(Write write) {
  if (!Add({std::move(write), nullptr})) ++counts_.writes_dropped;
}

void FarWriter::QueueCall(Call call) { Add({{}, std::move(call)}); }

bool FarWriter::Add(Item item) {
  const int64_t bytes = BytesOf(item.write);
  MutexLock lock(&mu_);
  if (queue_.size() >= kMaxQueued || bytes_ + bytes > limits_.queue_bytes)
    return false;
  bytes_ += bytes;
  queue_.push_back(std::move(item));
  changed_.Signal();
  return true;
}

void FarWriter::Loop() {
  while (true) {
    Item next;
    SteadyTime deadline = After(SteadyNow(), kWriteTime);
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !ending_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      deadline = After(SteadyNow(), kWriteTime);
      if (ending_) deadline = std::min(deadline, end_);
      next = std::move(queue_.front());
      queue_.pop_front();
      bytes_ -= BytesOf(next.write);
    }
    if (next.call) {
      next.call(deadline);
    } else {
      Store(next.write, deadline);
    }
  }
}

void FarWriter::Store(const Write& write, SteadyTime deadline) {
  const Digest& id =
      write.name.entry.has_value() ? *write.name.entry : write.name.key;
  const std::string record =
      SealRecord(id, *write.payload, *keys_->SignerOf(write.cache_namespace));
  const auto bytes = static_cast<int64_t>(record.size());
  if (bytes > limits_.max_record_bytes) {
    ++counts_.writes_dropped;
    return;
  }
  if (!budget_.Fits(write.cache_namespace, bytes, SteadyNow())) {
    ++counts_.over_budget;
    return;
  }
  const absl::Status stored =
      store_.Put(write.name, write.hint, record, deadline);
  if (stored.ok()) {
    ++counts_.writes;
    budget_.Spend(write.cache_namespace, bytes, SteadyNow());
    return;
  }
  ++counts_.writes_dropped;
  if (store_.WasLeftAlone(stored)) {
    ++counts_.breaker_open;
    return;
  }
  ++(absl::IsDeadlineExceeded(stored) ? counts_.timeouts : counts_.errors);
  LogWarning("far.write_failed", {{"key", write.name.key.ShortHex()},
                                  {"error", stored.ToString()}});
}

}  // namespace kiln

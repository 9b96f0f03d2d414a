#include "server/job_queue.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// What a turn costs a lane: the inverse of its share.
constexpr int64_t kStrides[kUrgencies] = {1, 4, 16};
// As compile_stream.cc's.
constexpr int64_t kNamespaceRatio = 3;

absl::Status Full(absl::string_view found) {
  return MakeError(
      ErrorReason::kQueueFull,
      absl::StrCat("job queue: found ", found, "; try again in a while"));
}

absl::Status Closed() {
  return MakeError(ErrorReason::kDraining, "job queue: the daemon ends");
}

}  // namespace

absl::Status JobQueue::Push(std::shared_ptr<Job> job, const QueuePlace& place) {
  MutexLock lock(&mu_);
  if (closed_) return Closed();
  RETURN_IF_ERROR(CheckRoom(place));
  Insert(
      Open(static_cast<int>(place.urgency), place.cache_namespace, place.bytes),
      {std::move(job), place.bytes, place.caller});
  changed_.Signal();
  return absl::OkStatus();
}

absl::Status JobQueue::CheckRoom(const QueuePlace& place) const {
  const Held own = HeldBy(place.cache_namespace, "");
  if (own.jobs >= limits_.jobs_a_namespace) {
    return Full(absl::StrCat(
        own.jobs, " jobs of namespace ", place.cache_namespace,
        " that wait, expected at most ", limits_.jobs_a_namespace));
  }
  if (jobs_ >= limits_.jobs) {
    return Full(absl::StrCat(jobs_, " jobs that wait, expected at most ",
                             limits_.jobs));
  }
  if (bytes_ + place.bytes > limits_.bytes) {
    return Full(absl::StrCat(
        bytes_, " bytes of jobs that wait, expected at most ", limits_.bytes));
  }
  return CheckShares(place, own);
}

absl::Status JobQueue::CheckShares(const QueuePlace& place,
                                   const Held& own) const {
  const int64_t bytes_left = limits_.bytes - bytes_;
  if (own.bytes >= kNamespaceRatio * bytes_left) {
    return Full(absl::StrCat(own.bytes, " bytes of namespace ",
                             place.cache_namespace, " and ", bytes_left,
                             " left for others"));
  }
  if (place.caller.empty()) return absl::OkStatus();
  const Held callers = HeldBy(place.cache_namespace, place.caller);
  if (callers.jobs == 0) return absl::OkStatus();
  const int64_t jobs_left = limits_.jobs_a_namespace - own.jobs;
  if (callers.jobs < jobs_left && callers.bytes < bytes_left)
    return absl::OkStatus();
  return Full(absl::StrCat(
      callers.jobs, " jobs of caller ", place.caller, " with ", callers.bytes,
      " bytes, and ", jobs_left, " jobs and ", bytes_left,
      " bytes left for others in namespace ", place.cache_namespace));
}

absl::Status JobQueue::PutBack(std::shared_ptr<Job> job,
                               const QueuePlace& place) {
  MutexLock lock(&mu_);
  if (closed_) return Closed();
  std::deque<Item>& items =
      Open(static_cast<int>(place.urgency), place.cache_namespace, place.bytes);
  const int64_t round = items.empty() ? 0 : items.front().round;
  items.push_front({std::move(job), place.bytes, place.caller, round});
  changed_.Signal();
  return absl::OkStatus();
}

JobQueue::Shares::Shares(int runners)
    : of_namespaces("running jobs of namespace", {.places = runners},
                    kNamespaceRatio),
      of_callers("running jobs of caller", {.places = runners}) {}

void JobQueue::ShareRunners(int count) {
  MutexLock lock(&mu_);
  shares_.emplace(count);
}

std::shared_ptr<Job> JobQueue::Pop() {
  MutexLock lock(&mu_);
  Found next;
  Running running;
  while (!FindNext(next, running)) {
    if (closed_ && jobs_ == 0) return nullptr;
    changed_.Wait(&mu_);
  }
  Lane& lane = lanes_[next.lane];
  now_ = lane.pass;
  lane.pass += kStrides[next.lane];
  std::shared_ptr<Job> job = std::move(Take(next).job);
  // Its next turn comes after everybody else's.
  if (lane.namespaces.contains(next.cache_namespace)) {
    std::erase(lane.turns, next.cache_namespace);
    lane.turns.push_back(next.cache_namespace);
  }
  if (shares_.has_value()) running_[job.get()] = std::move(running);
  return job;
}

void JobQueue::Done(const Job& job) {
  MutexLock lock(&mu_);
  running_.erase(&job);
  changed_.SignalAll();
}

bool JobQueue::FindNext(Found& found, Running& running) {
  std::array<int, kUrgencies> order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
    return lanes_[a].pass < lanes_[b].pass;
  });
  return std::any_of(order.begin(), order.end(),
                     [&](int lane) { return FindIn(lane, found, running); });
}

bool JobQueue::FindIn(int lane, Found& found, Running& running) {
  for (const std::string& turn : lanes_[lane].turns) {
    if (shares_.has_value()) {
      auto part = shares_->of_namespaces.Take(turn);
      if (!part.ok()) continue;
      running.of_namespace = *std::move(part);
    }
    size_t index = 0;
    if (FindOfAFreeCaller(lanes_[lane].namespaces.at(turn), index, running)) {
      found = {lane, turn, index};
      return true;
    }
    running.of_namespace.Release();
  }
  return false;
}

bool JobQueue::FindOfAFreeCaller(const std::deque<Item>& items, size_t& index,
                                 Running& running) {
  absl::flat_hash_set<absl::string_view> busy;
  for (index = 0; index < items.size(); ++index) {
    const std::string& caller = items[index].caller;
    if (!shares_.has_value() || caller.empty()) return true;
    if (busy.contains(caller)) continue;
    auto part = shares_->of_callers.Take(caller);
    if (part.ok()) {
      running.of_caller = *std::move(part);
      return true;
    }
    busy.insert(caller);
  }
  return false;
}

bool JobQueue::Remove(const Job& job) {
  Item ended;  // outside of the lock
  MutexLock lock(&mu_);
  Found at;
  if (!Find(job, at)) return false;
  ended = Take(at);
  return true;
}

void JobQueue::Raise(const Job& job, Urgency urgency) {
  MutexLock lock(&mu_);
  Found at;
  if (!Find(job, at) || at.lane <= static_cast<int>(urgency)) return;
  Item item = Take(at);
  const int64_t bytes = item.bytes;
  Insert(Open(static_cast<int>(urgency), at.cache_namespace, bytes),
         std::move(item));
}

int64_t JobQueue::PositionOf(const Job& job) const {
  MutexLock lock(&mu_);
  Found at;
  if (!Find(job, at)) return 0;
  int64_t ahead = 0;
  for (int i = 0; i < at.lane; ++i) ahead += lanes_[i].jobs;
  // Each round gives one job of each namespace that has some left.
  bool before_own = true;
  for (const std::string& turn : lanes_[at.lane].turns) {
    if (turn == at.cache_namespace) {
      ahead += static_cast<int64_t>(at.index);
      before_own = false;
      continue;
    }
    const size_t rounds = at.index + (before_own ? 1 : 0);
    ahead += static_cast<int64_t>(
        std::min(lanes_[at.lane].namespaces.at(turn).size(), rounds));
  }
  return ahead + 1;
}

void JobQueue::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
  changed_.SignalAll();
}

int64_t JobQueue::size() const {
  MutexLock lock(&mu_);
  return jobs_;
}

bool JobQueue::Find(const Job& job, Found& found) const {
  for (int lane = 0; lane < kUrgencies; ++lane) {
    for (const auto& [name, items] : lanes_[lane].namespaces) {
      for (size_t i = 0; i < items.size(); ++i) {
        if (items[i].job.get() != &job) continue;
        found = {lane, name, i};
        return true;
      }
    }
  }
  return false;
}

JobQueue::Item JobQueue::Take(const Found& at) {
  Lane& lane = lanes_[at.lane];
  std::deque<Item>& items = lane.namespaces.at(at.cache_namespace);
  Item item = std::move(items[at.index]);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at.index));
  if (items.empty()) {
    lane.namespaces.erase(at.cache_namespace);
    std::erase(lane.turns, at.cache_namespace);
  }
  --lane.jobs;
  --jobs_;
  bytes_ -= item.bytes;
  return item;
}

// Where a job of so many bytes is about to be put.
std::deque<JobQueue::Item>& JobQueue::Open(int index,
                                           const std::string& cache_namespace,
                                           int64_t bytes) {
  Lane& lane = lanes_[index];
  // A lane that was empty has saved up nothing, and waits its stride first.
  if (lane.jobs == 0)
    lane.pass = std::max(lane.pass, now_) + kStrides[index] - 1;
  const auto [queue, is_new] = lane.namespaces.try_emplace(cache_namespace);
  if (is_new) lane.turns.push_back(cache_namespace);
  ++lane.jobs;
  ++jobs_;
  bytes_ += bytes;
  return queue->second;
}

void JobQueue::Insert(std::deque<Item>& items, Item item) {
  item.round = items.empty() ? 0 : items.front().round;
  if (!item.caller.empty()) {
    for (const Item& other : items) {
      if (other.caller == item.caller)
        item.round = std::max(item.round, other.round + 1);
    }
  } else if (!items.empty()) {
    item.round = items.back().round;
  }
  const auto place = std::upper_bound(
      items.begin(), items.end(), item.round,
      [](int64_t round, const Item& other) { return round < other.round; });
  items.insert(place, std::move(item));
}

JobQueue::Held JobQueue::HeldBy(const std::string& cache_namespace,
                                const std::string& caller) const {
  Held held;
  for (const Lane& lane : lanes_) {
    const auto own = lane.namespaces.find(cache_namespace);
    if (own == lane.namespaces.end()) continue;
    for (const Item& item : own->second) {
      if (!caller.empty() && item.caller != caller) continue;
      ++held.jobs;
      held.bytes += item.bytes;
    }
  }
  return held;
}

}  // namespace kiln

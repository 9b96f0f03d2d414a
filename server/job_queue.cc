#include "server/job_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// What a turn costs a lane: the inverse of its share.
constexpr int64_t kStrides[kUrgencies] = {1, 4, 16};

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
  const int64_t own = JobsOf(place.cache_namespace);
  if (own >= limits_.jobs_a_namespace) {
    return Full(absl::StrCat(own, " jobs of namespace ", place.cache_namespace,
                             " that wait, at most ", limits_.jobs_a_namespace,
                             " are due"));
  }
  if (jobs_ >= limits_.jobs) {
    return Full(absl::StrCat(jobs_, " jobs that wait, at most ", limits_.jobs,
                             " are due"));
  }
  if (bytes_ + place.bytes > limits_.bytes) {
    return Full(absl::StrCat(bytes_, " bytes of jobs that wait, at most ",
                             limits_.bytes, " are due"));
  }
  Open(static_cast<int>(place.urgency), place.cache_namespace, place.bytes)
      .push_back({std::move(job), place.bytes});
  changed_.Signal();
  return absl::OkStatus();
}

absl::Status JobQueue::PutBack(std::shared_ptr<Job> job,
                               const QueuePlace& place) {
  MutexLock lock(&mu_);
  if (closed_) return Closed();
  Open(static_cast<int>(place.urgency), place.cache_namespace, place.bytes)
      .push_front({std::move(job), place.bytes});
  changed_.Signal();
  return absl::OkStatus();
}

std::shared_ptr<Job> JobQueue::Pop() {
  MutexLock lock(&mu_);
  while (jobs_ == 0 && !closed_) changed_.Wait(&mu_);
  if (jobs_ == 0) return nullptr;
  int next = -1;
  for (int i = 0; i < kUrgencies; ++i) {
    if (lanes_[i].jobs == 0) continue;
    if (next < 0 || lanes_[i].pass < lanes_[next].pass) next = i;
  }
  Lane& lane = lanes_[next];
  now_ = lane.pass;
  lane.pass += kStrides[next];
  const std::string turn = lane.turns.front();
  std::shared_ptr<Job> job = std::move(Take({next, turn, 0}).job);
  // Its next turn comes after everybody else's.
  if (lane.namespaces.contains(turn)) {
    lane.turns.pop_front();
    lane.turns.push_back(turn);
  }
  return job;
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
  Open(static_cast<int>(urgency), at.cache_namespace, bytes)
      .push_back(std::move(item));
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

int64_t JobQueue::JobsOf(const std::string& cache_namespace) const {
  int64_t jobs = 0;
  for (const Lane& lane : lanes_) {
    const auto own = lane.namespaces.find(cache_namespace);
    if (own != lane.namespaces.end())
      jobs += static_cast<int64_t>(own->second.size());
  }
  return jobs;
}

}  // namespace kiln

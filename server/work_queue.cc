#include "server/work_queue.h"

#include <algorithm>

#include "proto/base/status.h"
#include "server/detached_status.h"

namespace kiln {

absl::Status PoolEnded() {
  return MakeError(ErrorReason::kDraining, "worker pool: the daemon ends");
}

absl::StatusOr<const wire::WorkReply*> PendingWork::Wait() {
  MutexLock lock(&mu_);
  while (!done_) answered_.Wait(&mu_);
  if (!reply_.ok()) return Detached(reply_.status());
  return &*reply_;
}

bool PendingWork::done() const {
  MutexLock lock(&mu_);
  return done_;
}

void PendingWork::Answer(absl::StatusOr<wire::WorkReply> reply) {
  MutexLock lock(&mu_);
  reply_ = std::move(reply);
  done_ = true;
  answered_.SignalAll();
}

WorkerUse PendingWork::use() const {
  return {.cache_namespace = label_.cache_namespace,
          .gpu = request_.has_measure() && label_.target.has_cuda()};
}

std::shared_ptr<PendingWork> WorkQueue::Push(wire::WorkRequest request,
                                             WorkLabel label) {
  auto work =
      std::make_shared<PendingWork>(std::move(request), std::move(label));
  MutexLock lock(&mu_);
  if (ended_) {
    work->Answer(PoolEnded());
    return work;
  }
  work->request_.set_id(++last_id_);
  (work->request_.has_build() ? builds_ : others_).push_back(work);
  changed_.SignalAll();
  return work;
}

void WorkQueue::PutBack(std::shared_ptr<PendingWork> work) {
  MutexLock lock(&mu_);
  if (ended_) return work->Answer(PoolEnded());
  (work->request_.has_build() ? builds_ : others_).push_front(std::move(work));
  changed_.SignalAll();
}

std::shared_ptr<PendingWork> WorkQueue::Take(
    const std::optional<WorkerUse>& use) {
  MutexLock lock(&mu_);
  idle_.push_back(&use);
  List* list = nullptr;
  while (!ended_ && ((list = Next()) == nullptr ||
                     AnotherFitsBetter(use, list->front()->use()))) {
    changed_.Wait(&mu_);
  }
  std::erase(idle_, &use);
  if (ended_) return nullptr;
  std::shared_ptr<PendingWork> work = std::move(list->front());
  list->pop_front();
  // Who left a request to another may take the next.
  changed_.SignalAll();
  return work;
}

void WorkQueue::End() {
  MutexLock lock(&mu_);
  ended_ = true;
  changed_.SignalAll();
  for (List* list : {&builds_, &others_}) {
    for (const auto& work : *list) work->Answer(PoolEnded());
    list->clear();
  }
}

bool WorkQueue::ended() const {
  MutexLock lock(&mu_);
  return ended_;
}

WorkQueue::Fit WorkQueue::FitOf(const std::optional<WorkerUse>& worker,
                                const WorkerUse& request) {
  if (!worker.has_value()) return Fit::kNew;
  return *worker == request ? Fit::kOfSameUse : Fit::kOfOther;
}

WorkQueue::List* WorkQueue::Next() {
  if (!builds_.empty()) return &builds_;
  return others_.empty() ? nullptr : &others_;
}

bool WorkQueue::AnotherFitsBetter(const std::optional<WorkerUse>& worker,
                                  const WorkerUse& request) const {
  const Fit ours = FitOf(worker, request);
  return std::any_of(idle_.begin(), idle_.end(), [&](const auto* other) {
    return FitOf(*other, request) < ours;
  });
}

}  // namespace kiln

#include "server/work_queue.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "server/detached_status.h"

namespace kiln {

std::string JobWords(const WorkLabel& label) {
  const std::string job = absl::StrCat("job ", label.key.ShortHex(), ": ");
  return label.graph_name.empty()
             ? job
             : absl::StrCat(job, "graph ", label.graph_name, ": ");
}

absl::Status PoolEnded() {
  return MakeError(ErrorReason::kDraining, "worker pool: the daemon ends");
}

constexpr absl::string_view kReplacedUrl = "kiln.CompilersReplaced";

absl::Status CompilersReplaced(absl::string_view message) {
  absl::Status status = MakeError(ErrorReason::kNoToolchain, message);
  status.SetPayload(kReplacedUrl, absl::Cord());
  return status;
}

bool CompilersWereReplaced(const absl::Status& status) {
  return status.GetPayload(kReplacedUrl).has_value();
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

WorkTimes PendingWork::times() const {
  MutexLock lock(&mu_);
  return times_;
}

void PendingWork::Begin() {
  MutexLock lock(&mu_);
  times_.begun = SteadyNow();
}

void PendingWork::Answer(absl::StatusOr<wire::WorkReply> reply) {
  MutexLock lock(&mu_);
  times_.ended = SteadyNow();
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
  Add(work, work->label().cache_namespace, work->label().caller);
  return work;
}

void WorkQueue::Join(std::shared_ptr<PendingWork> work,
                     const std::string& cache_namespace,
                     const std::string& caller) {
  const WorkLabel& own = work->label();
  if (own.cache_namespace == cache_namespace && own.caller == caller) return;
  MutexLock lock(&mu_);
  if (ended_ || work->taken_) return;
  Add(std::move(work), cache_namespace, caller);
}

void WorkQueue::Add(std::shared_ptr<PendingWork> work,
                    const std::string& cache_namespace,
                    const std::string& caller) {
  Lists& lists = waiting_.Of(cache_namespace).Of(caller);
  (work->request().has_build() ? lists.builds : lists.others)
      .push_back(std::move(work));
  changed_.SignalAll();
}

void WorkQueue::PutBack(std::shared_ptr<PendingWork> work) {
  MutexLock lock(&mu_);
  if (ended_) return work->Answer(PoolEnded());
  again_.push_back(std::move(work));
  changed_.SignalAll();
}

std::shared_ptr<PendingWork> WorkQueue::Take(
    const std::optional<WorkerUse>& use, int in_a_row) {
  MutexLock lock(&mu_);
  idle_.push_back(&use);
  std::shared_ptr<PendingWork> work;
  while (!ended_) {
    if (use.has_value() && in_a_row < kMostInARow)
      waiting_.Bring(use->cache_namespace);
    work = Front();
    if (work != nullptr && !AnotherFitsBetter(use, work->use())) break;
    changed_.Wait(&mu_);
  }
  std::erase(idle_, &use);
  if (ended_) return nullptr;
  PopFront();
  // Who left a request to another may take the next.
  changed_.SignalAll();
  return work;
}

std::shared_ptr<PendingWork> WorkQueue::Front() {
  if (!again_.empty()) return again_.front();
  DropTaken();
  if (waiting_.empty()) return nullptr;
  return waiting_.Next().Next().next().front();
}

void WorkQueue::PopFront() {
  if (!again_.empty()) return again_.pop_front();
  Turns<Lists>& callers = waiting_.Next();
  List& list = callers.Next().next();
  list.front()->taken_ = true;
  list.pop_front();
  callers.Pass();
  waiting_.Pass();
}

void WorkQueue::DropTaken() {
  while (!waiting_.empty()) {
    Turns<Lists>& callers = waiting_.Next();
    Lists& lists = callers.Next();
    if (!lists.next().front()->taken_) return;
    lists.next().pop_front();
    if (!lists.empty()) continue;
    callers.Pass();
    if (callers.empty()) waiting_.Pass();
  }
}

void WorkQueue::End() {
  MutexLock lock(&mu_);
  ended_ = true;
  changed_.SignalAll();
  while (const std::shared_ptr<PendingWork> work = Front()) {
    PopFront();
    work->Answer(PoolEnded());
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

bool WorkQueue::AnotherFitsBetter(const std::optional<WorkerUse>& worker,
                                  const WorkerUse& request) const {
  const Fit ours = FitOf(worker, request);
  return std::any_of(idle_.begin(), idle_.end(), [&](const auto* other) {
    return FitOf(*other, request) < ours;
  });
}

}  // namespace kiln

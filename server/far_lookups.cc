#include "server/far_lookups.h"

#include <optional>
#include <utility>

namespace kiln {
namespace {

// They wait for a network and compute little.
constexpr int kThreads = 8;
// Different looks at once; more are misses.
constexpr size_t kMaxLooks = 4096;

// Equal for asks that the same entries serve.
Digest IdOf(const FarAsk& ask) {
  Sha256 sha;
  sha.Add(ask.key.bytes()).AddField(ask.cache_namespace);
  sha.AddNumber(ask.driver_cuda_version);
  sha.AddNumber(reinterpret_cast<uintptr_t>(ask.decisions.get()));
  for (const int64_t value : ask.values)
    sha.AddNumber(static_cast<uint64_t>(value));
  return sha.Finish();
}

}  // namespace

FarLookups::FarLookups(ArtifactCache& cache, absl::Duration budget)
    : cache_(cache), budget_(budget) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Loop(); });
}

FarLookups::~FarLookups() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void FarLookups::Start(FarAsk ask, Done done) {
  const Digest id = IdOf(ask);
  {
    MutexLock lock(&mu_);
    const auto found = looks_.find(id);
    if (found != looks_.end()) {
      found->second->callers.push_back(std::move(done));
      return;
    }
    if (looks_.size() < kMaxLooks) {
      auto look = std::make_shared<Look>();
      look->id = id;
      look->ask = std::move(ask);
      look->deadline = After(SteadyNow(), budget_);
      look->callers.push_back(std::move(done));
      looks_.emplace(id, look);
      queue_.push_back(std::move(look));
      changed_.Signal();
      return;
    }
  }
  done(CacheAnswer());
}

void FarLookups::Loop() {
  while (true) {
    std::shared_ptr<Look> look;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !ending_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      look = std::move(queue_.front());
      queue_.pop_front();
    }
    Serve(*look);
  }
}

void FarLookups::Serve(Look& look) {
  const EntryQuery query = look.ask.query();
  // An equal look may have ended between its caller's and ours.
  ArtifactCache::FarAnswer far;
  far.answer = cache_.Lookup(look.ask.key, query);
  const bool is_near = far.answer.hit();
  if (!is_near) far = cache_.LookupFar(look.ask.key, query, look.deadline);
  Answer(look, far.answer, /*last=*/false);
  if (!is_near && far.answer.hit()) cache_.KeepNear(far.found);
  // Those who came meanwhile; who comes now finds it near.
  Answer(look, far.answer, /*last=*/true);
}

void FarLookups::Answer(Look& look, const CacheAnswer& answer, bool last) {
  std::vector<Done> callers;
  {
    MutexLock lock(&mu_);
    callers.swap(look.callers);
    if (last) looks_.erase(look.id);
  }
  for (const Done& done : callers) done(answer);
}

}  // namespace kiln

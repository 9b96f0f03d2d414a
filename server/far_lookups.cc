#include "server/far_lookups.h"

#include <optional>
#include <utility>

namespace kiln {
namespace {

// They wait for a network and compute little.
constexpr int kThreads = 8;

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
    : cache_(cache),
      budget_(budget),
      shares_("far looks of caller", {.places = kMostLooks}) {
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

void FarLookups::Start(const std::string& caller, FarAsk ask, Done done) {
  const Digest id = IdOf(ask);
  {
    MutexLock lock(&mu_);
    const auto found = looks_.find(id);
    if (found != looks_.end()) {
      found->second->waiters.push_back(std::move(done));
      // Whoever has no place left waits for the turns of the others.
      if (!found->second->begun) Queue(caller, found->second);
      return;
    }
    auto look = std::make_shared<Look>();
    if (Queue(caller, look)) {
      look->id = id;
      look->ask = std::move(ask);
      look->deadline = After(SteadyNow(), budget_);
      look->waiters.push_back(std::move(done));
      looks_.emplace(id, std::move(look));
      return;
    }
  }
  done(CacheAnswer());
}

bool FarLookups::Queue(const std::string& caller,
                       const std::shared_ptr<Look>& look) {
  if (look->callers.contains(caller)) return true;
  auto part = shares_.Take(caller);
  if (!part.ok()) return false;
  look->callers.emplace(caller, *std::move(part));
  queued_.Of(caller).push_back(look);
  changed_.Signal();
  return true;
}

std::shared_ptr<FarLookups::Look> FarLookups::Next() {
  std::deque<std::shared_ptr<Look>>& own = queued_.Next();
  const std::shared_ptr<Look> next = std::move(own.front());
  own.pop_front();
  // What another's turn did was none of this caller's.
  if (!next->begun || own.empty()) queued_.Pass();
  if (next->begun) return nullptr;
  next->begun = true;
  return next;
}

void FarLookups::Loop() {
  while (true) {
    std::shared_ptr<Look> look;
    {
      MutexLock lock(&mu_);
      while (queued_.empty() && !ending_) changed_.Wait(&mu_);
      if (queued_.empty()) return;
      look = Next();
    }
    if (look != nullptr) Serve(*look);
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
  std::vector<Done> waiters;
  std::map<std::string, FairShare::Part> ended;
  {
    MutexLock lock(&mu_);
    waiters.swap(look.waiters);
    if (last) looks_.erase(look.id);
    if (last) ended.swap(look.callers);
  }
  for (const Done& done : waiters) done(answer);
}

}  // namespace kiln

#include "server/unit_builder.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/base/assemble.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

std::string KernelsOf(const wire::TranslationUnit& unit) {
  if (unit.symbols().empty()) return "no kernel";
  if (unit.symbols_size() == 1) return unit.symbols(0);
  return absl::StrCat(unit.symbols(0), " and ", unit.symbols_size() - 1,
                      " more");
}

}  // namespace

absl::StatusOr<BuiltUnits> UnitBuilder::BuildAll(
    const wire::CompilePlan& compiled, const wire::Target& target,
    const WorkLabel& label,
    absl::FunctionRef<void(int done, int total)> progress) {
  int total = 0;
  BuiltUnits built;
  std::vector<Digest> keys;
  for (const wire::TranslationUnit& unit : compiled.units())
    keys.push_back(UnitCache::Key(UnitDigest(unit), target, label.toolchain));
  cache_.Fetch(keys);
  std::vector<Wanted> all;
  for (int i = 0; i < compiled.units_size(); ++i) {
    const wire::TranslationUnit& unit = compiled.units(i);
    Wanted wanted = Ask(unit, keys[i], target, label);
    ++(wanted.ours ? built.built : built.cached);
    total += unit.symbols_size();
    all.push_back(std::move(wanted));
  }
  absl::Status failure;
  int done = 0;
  for (int i = 0; i < compiled.units_size(); ++i) {
    progress(done, total);
    done += compiled.units(i).symbols_size();
    // After a failure too: what we asked for must be taken out again.
    const absl::Status fetched = Fetch(compiled.units(i), label, all[i]);
    if (failure.ok()) failure = fetched;
  }
  RETURN_IF_ERROR(failure);
  progress(total, total);
  for (int i = 0; i < compiled.units_size(); ++i) {
    if (all[i].work != nullptr) {
      built.builds.push_back(
          {KernelsOf(compiled.units(i)), all[i].work->times()});
    }
    built.objects.push_back(std::move(all[i].object));
  }
  return built;
}

// A build that ends goes from the list to the cache. So the cache's "no" counts
// only if none ended while it was asked; else it is asked again.
UnitBuilder::Wanted UnitBuilder::Ask(const wire::TranslationUnit& unit,
                                     const Digest& key,
                                     const wire::Target& target,
                                     const WorkLabel& label) {
  Wanted wanted;
  wanted.key = key;
  while (true) {
    int64_t ended = 0;
    {
      MutexLock lock(&mu_);
      if (Join(wanted, label)) return wanted;
      ended = ended_;
    }
    std::optional<wire::ObjectCode> found = cache_.Lookup(wanted.key);
    if (found.has_value()) {
      counters_.Add(Count::kUnitsCached);
      wanted.object = *std::move(found);
      return wanted;
    }
    MutexLock lock(&mu_);
    if (Join(wanted, label)) return wanted;
    if (ended != ended_) continue;
    wire::WorkRequest request;
    *request.mutable_build()->mutable_unit() = unit;
    *request.mutable_build()->mutable_target() = target;
    wanted.asked = SteadyNow();
    wanted.work = pool_.Submit(std::move(request), label);
    wanted.ours = true;
    under_way_.emplace(wanted.key, wanted.work);
    return wanted;
  }
}

bool UnitBuilder::Join(Wanted& wanted, const WorkLabel& label) {
  const auto found = under_way_.find(wanted.key);
  if (found == under_way_.end()) return false;
  counters_.Add(Count::kUnitsJoined);
  wanted.asked = SteadyNow();
  wanted.work = found->second;
  pool_.Join(wanted.work, label);
  return true;
}

absl::Status UnitBuilder::Fetch(const wire::TranslationUnit& unit,
                                const WorkLabel& label, Wanted& wanted) {
  if (wanted.work == nullptr) return absl::OkStatus();
  const absl::StatusOr<const wire::WorkReply*> reply = wanted.work->Wait();
  absl::Status status = reply.status();
  if (ReasonOf(status) == ErrorReason::kWorkerDied &&
      wanted.work->label().cache_namespace != label.cache_namespace) {
    status = MakeError(
        ErrorReason::kWorkerDied,
        absl::StrCat(JobWords(label), "unit of ", KernelsOf(unit),
                     ": its build, begun for another job, ended with its "
                     "worker; ask again"));
  }
  if (reply.ok() && (!(*reply)->has_build() ||
                     (*reply)->build().unit_digest() != unit.digest())) {
    status = absl::InternalError(absl::StrCat("unit of ", KernelsOf(unit),
                                              ": the worker built another"));
  }
  if (status.ok()) {
    wanted.object = (*reply)->build();
    if (wanted.ours) counters_.Add(Count::kUnitsBuilt);
    if (wanted.ours || IsUnderWay(wanted)) Store(wanted);
  }
  if (!wanted.ours) return status;
  // Into the cache first, then off the list: see Ask.
  MutexLock lock(&mu_);
  under_way_.erase(wanted.key);
  ++ended_;
  return status;
}

bool UnitBuilder::IsUnderWay(const Wanted& wanted) const {
  MutexLock lock(&mu_);
  const auto found = under_way_.find(wanted.key);
  return found != under_way_.end() && found->second == wanted.work;
}

void UnitBuilder::Store(const Wanted& wanted) {
  const absl::Status stored =
      cache_.Insert(wanted.key, wanted.object, Since(wanted.asked));
  if (stored.ok()) return;
  counters_.Add(Count::kCacheStoreFailed);
  LogWarning("unit.store_failed", {{"error", stored.ToString()}});
}

}  // namespace kiln

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

// Whether what failed tells nothing of this unit: its build was another job's, whose
// workers ended, or another namespace's, whose worker may say what it likes.
bool SaysNothing(const absl::Status& failed, const WorkLabel& theirs,
                 const WorkLabel& ours) {
  if (ReasonOf(failed) == ErrorReason::kDraining ||
      CompilersWereReplaced(failed)) {
    return false;
  }
  return ReasonOf(failed) == ErrorReason::kWorkerDied ||
         theirs.cache_namespace != ours.cache_namespace;
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
    total += unit.symbols_size();
    all.push_back(Ask(unit, keys[i], target, label, Whose::kAnybodys));
  }
  absl::Status failure;
  int done = 0;
  for (int i = 0; i < compiled.units_size(); ++i) {
    const wire::TranslationUnit& unit = compiled.units(i);
    progress(done, total);
    done += unit.symbols_size();
    // After a failure too: what we asked for must be taken out again.
    absl::Status fetched = Fetch(unit, all[i]);
    if (failure.ok() && !fetched.ok() && !all[i].ours &&
        SaysNothing(fetched, all[i].work->label(), label)) {
      all[i] = Ask(unit, keys[i], target, label, Whose::kOurs);
      fetched = Fetch(unit, all[i]);
    }
    if (failure.ok()) failure = fetched;
  }
  RETURN_IF_ERROR(failure);
  progress(total, total);
  for (int i = 0; i < compiled.units_size(); ++i) {
    ++(all[i].ours ? built.built : built.cached);
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
                                     const WorkLabel& label, Whose whose) {
  const bool may_join = whose == Whose::kAnybodys;
  Wanted wanted;
  wanted.key = key;
  while (true) {
    int64_t ended = 0;
    {
      MutexLock lock(&mu_);
      if (may_join && Join(wanted, label)) return wanted;
      ended = ended_;
    }
    std::optional<wire::ObjectCode> found = cache_.Lookup(wanted.key);
    if (found.has_value()) {
      counters_.Add(Count::kUnitsCached);
      wanted.object = *std::move(found);
      return wanted;
    }
    MutexLock lock(&mu_);
    if (may_join && Join(wanted, label)) return wanted;
    if (ended != ended_) continue;
    wire::WorkRequest request;
    *request.mutable_build()->mutable_unit() = unit;
    *request.mutable_build()->mutable_target() = target;
    wanted.asked = SteadyNow();
    wanted.work = pool_.Submit(std::move(request), label);
    wanted.ours = true;
    under_way_.emplace(wanted.key, wanted.work);  // if no other is
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
                                Wanted& wanted) {
  if (wanted.work == nullptr) return absl::OkStatus();
  const absl::StatusOr<const wire::WorkReply*> reply = wanted.work->Wait();
  absl::Status status = reply.status();
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
  if (IsListed(wanted)) under_way_.erase(wanted.key);
  ++ended_;
  return status;
}

bool UnitBuilder::IsUnderWay(const Wanted& wanted) const {
  MutexLock lock(&mu_);
  return IsListed(wanted);
}

bool UnitBuilder::IsListed(const Wanted& wanted) const {
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

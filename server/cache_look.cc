#include "server/cache_look.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

Count CountOf(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kHit:
      return Count::kCacheHits;
    case CacheOutcome::kMiss:
      return Count::kCacheMisses;
    case CacheOutcome::kGuardMiss:
      return Count::kCacheGuardMisses;
    case CacheOutcome::kBroken:
      return Count::kCacheBroken;
  }
  return Count::kCacheMisses;
}

wire::LookupReply::Outcome ToWire(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kHit:
      return wire::LookupReply::OUTCOME_HIT;
    case CacheOutcome::kMiss:
      return wire::LookupReply::OUTCOME_MISS;
    case CacheOutcome::kGuardMiss:
      return wire::LookupReply::OUTCOME_GUARD_MISS;
    case CacheOutcome::kBroken:
      return wire::LookupReply::OUTCOME_BROKEN;
  }
  return wire::LookupReply::OUTCOME_UNSPECIFIED;
}

}  // namespace

CacheAnswer LookInCache(ArtifactCache& cache, const Digest& key,
                        const EntryQuery& query, LookFor look_for,
                        Counters& counters) {
  CacheAnswer answer = cache.Lookup(key, query);
  const bool comes_again = look_for == LookFor::kLookup &&
                           (answer.outcome == CacheOutcome::kMiss ||
                            answer.outcome == CacheOutcome::kGuardMiss);
  if (!comes_again) counters.Add(CountOf(answer.outcome));
  if (answer.outcome == CacheOutcome::kBroken) {
    LogWarning("cache.broken", {{"key", key.ShortHex()}});
  }
  return answer;
}

absl::StatusOr<CompiledArtifact> MadeBefore(CacheAnswer hit) {
  // Others may wait for the job with sizes of their own: they need the guards.
  wire::Artifact artifact;
  if (!artifact.ParseFromString(hit.artifact.artifact())) {
    return MakeError(
        ErrorReason::kArtifactCorrupt,
        absl::StrCat("entry ", hit.entry_id.ShortHex(), ": no Artifact"));
  }
  CompiledArtifact made;
  made.guards = std::move(*artifact.mutable_compiled()->mutable_guards());
  made.least_driver_cuda_version = artifact.least_driver_cuda_version();
  made.artifact =
      std::make_shared<const wire::SignedArtifact>(std::move(hit.artifact));
  made.from_cache = true;
  return made;
}

wire::CompileResult ResultFromCache(const CompileTask& task, CacheAnswer hit) {
  wire::CompileResult result;
  *result.mutable_artifact() = std::move(hit.artifact);
  result.set_served_from(wire::CompileResult::SERVED_FROM_CACHE);
  result.set_compile_key(task.key.digest.ToBytes());
  return result;
}

wire::CompileResult ResultFromJob(const CompileTask& task,
                                  const JobShare& share) {
  const CompiledArtifact& built = *share.built;
  wire::CompileResult result;
  *result.mutable_artifact() = *built.artifact;
  result.set_compile_key(task.key.digest.ToBytes());
  if (built.from_cache) {
    result.set_served_from(wire::CompileResult::SERVED_FROM_CACHE);
    return result;
  }
  result.set_served_from(share.role == JobRole::kLeader
                             ? wire::CompileResult::SERVED_FROM_COMPILE
                             : wire::CompileResult::SERVED_FROM_JOINED);
  result.set_queue_us(absl::ToInt64Microseconds(built.queued));
  result.set_plan_us(absl::ToInt64Microseconds(built.planned));
  result.set_build_us(absl::ToInt64Microseconds(built.built));
  result.set_units_built(static_cast<uint32_t>(built.units_built));
  result.set_units_cached(static_cast<uint32_t>(built.units_cached));
  return result;
}

wire::LookupReply LookupReplyOf(CacheAnswer answer) {
  wire::LookupReply reply;
  reply.set_outcome(ToWire(answer.outcome));
  if (answer.hit()) *reply.mutable_artifact() = std::move(answer.artifact);
  return reply;
}

}  // namespace kiln

#ifndef KILN_SERVER_CACHE_LOOK_H_
#define KILN_SERVER_CACHE_LOOK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cache/artifact_cache.h"
#include "cache/ready_entry.h"
#include "proto/compile_service.pb.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/waiter.h"

namespace kiln {

// Between the cache's answers, the jobs' and the wire's.

// A client looks first, and compiles when nothing was found: its miss is counted
// then, once.
enum class LookFor { kLookup, kCompile };

// Counts and logs what a look gave, near and far: once a call.
void CountLook(CacheOutcome outcome, const Digest& key, LookFor look_for,
               Counters& counters);

// A hit as a job's outcome. DATA_LOSS ARTIFACT_CORRUPT when it is no Artifact.
absl::StatusOr<CompiledArtifact> MadeBefore(CacheAnswer hit);

// A CompileEvent with the result of a hit, and a LookupReply. The artifact is not
// copied: its message stands behind all else.
SharedAnswer EventOfHit(const CompileTask& task, ReadyHit hit);
SharedAnswer LookupReplyOf(ReadyHit hit);
// Of no hit.
SharedAnswer LookupReplyOf(CacheOutcome outcome);
// Fills the events of what a job made for this task.
void FillEvents(const CompileTask& task, CompiledArtifact& made);

}  // namespace kiln

#endif  // KILN_SERVER_CACHE_LOOK_H_

#include "server/cache_look.h"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
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

SharedBytes Serialized(const wire::CompileEvent& event) {
  return std::make_shared<const std::string>(event.SerializeAsString());
}

// Before a message of so many bytes in the field `number`.
void AppendFieldHead(int number, size_t bytes, std::string& head) {
  using google::protobuf::internal::WireFormatLite;
  using google::protobuf::io::CodedOutputStream;
  std::array<uint8_t, 10> raw;  // two numbers of 32 bits at their longest
  uint8_t* end = CodedOutputStream::WriteTagToArray(
      WireFormatLite::MakeTag(number,
                              WireFormatLite::WIRETYPE_LENGTH_DELIMITED),
      raw.data());
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(bytes),
                                                end);
  head.append(raw.data(), end);
}

void FillHit(const CompileTask& task, wire::CompileResult& result) {
  result.set_served_from(wire::CompileResult::SERVED_FROM_CACHE);
  result.set_compile_key(task.key.digest.ToBytes());
}

}  // namespace

void CountLook(CacheOutcome outcome, const Digest& key, LookFor look_for,
               Counters& counters) {
  const bool comes_again =
      look_for == LookFor::kLookup &&
      (outcome == CacheOutcome::kMiss || outcome == CacheOutcome::kGuardMiss);
  if (!comes_again) counters.Add(CountOf(outcome));
  if (outcome == CacheOutcome::kBroken) {
    LogWarning("cache.broken", {{"key", key.ShortHex()}});
  }
}

absl::StatusOr<CompiledArtifact> MadeBefore(CacheAnswer hit) {
  // Others may wait for the job with sizes of their own: they need the guards.
  wire::Artifact artifact;
  if (!artifact.ParseFromString(hit.artifact.artifact())) {
    return MakeError(
        ErrorReason::kArtifactCorrupt,
        absl::StrCat("entry ", hit.entry_id.ShortHex(), ": not an artifact"));
  }
  CompiledArtifact made;
  made.guards = std::move(*artifact.mutable_compiled()->mutable_guards());
  made.least_driver_cuda_version = artifact.least_driver_cuda_version();
  made.artifact = std::move(hit.artifact);
  made.from_cache = true;
  return made;
}

SharedAnswer EventOfHit(const CompileTask& task, ReadyHit hit) {
  wire::CompileResult result;
  FillHit(task, result);
  std::string inner = result.SerializeAsString();
  AppendFieldHead(wire::CompileResult::kArtifactFieldNumber,
                  hit.artifact.size(), inner);
  std::string head;
  AppendFieldHead(wire::CompileEvent::kResultFieldNumber,
                  inner.size() + hit.artifact.size(), head);
  return {absl::StrCat(head, inner), std::move(hit.record), hit.artifact};
}

SharedAnswer LookupReplyOf(ReadyHit hit) {
  static const auto& outcome = *new std::string([] {
    wire::LookupReply reply;
    reply.set_outcome(wire::LookupReply::OUTCOME_HIT);
    return reply.SerializeAsString();
  }());
  std::string head = outcome;
  AppendFieldHead(wire::LookupReply::kArtifactFieldNumber, hit.artifact.size(),
                  head);
  return {std::move(head), std::move(hit.record), hit.artifact};
}

void FillEvents(const CompileTask& task, CompiledArtifact& made) {
  wire::CompileEvent event;
  wire::CompileResult& result = *event.mutable_result();
  *result.mutable_artifact() = made.artifact;
  result.set_compile_key(task.key.digest.ToBytes());
  if (made.from_cache) {
    result.set_served_from(wire::CompileResult::SERVED_FROM_CACHE);
    made.leader_event = made.joined_event = Serialized(event);
    return;
  }
  result.set_queue_us(absl::ToInt64Microseconds(made.queued));
  result.set_plan_us(absl::ToInt64Microseconds(made.planned));
  result.set_build_us(absl::ToInt64Microseconds(made.built));
  result.set_units_built(static_cast<uint32_t>(made.units_built));
  result.set_units_cached(static_cast<uint32_t>(made.units_cached));
  result.set_served_from(wire::CompileResult::SERVED_FROM_COMPILE);
  made.leader_event = Serialized(event);
  result.set_served_from(wire::CompileResult::SERVED_FROM_JOINED);
  made.joined_event = Serialized(event);
}

SharedAnswer LookupReplyOf(CacheOutcome outcome) {
  wire::LookupReply reply;
  reply.set_outcome(ToWire(outcome));
  return SharedAnswer(
      std::make_shared<const std::string>(reply.SerializeAsString()));
}

}  // namespace kiln

#include "server/cache_admin.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cache/explain.h"
#include "cache/tuning_match.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/key/request_digest.h"
#include "server/compile_task.h"

namespace kiln {
namespace {

void FillParts(const std::vector<KeyPart>& parts,
               google::protobuf::RepeatedPtrField<wire::KeyPart>& into) {
  for (const KeyPart& part : parts) {
    wire::KeyPart& wire = *into.Add();
    wire.set_name(part.name);
    wire.set_digest(part.digest.ToBytes());
    wire.set_text(part.text);
  }
}

wire::Entry ToWire(const EntrySummary& summary) {
  wire::Entry entry;
  entry.set_compile_key(summary.compile_key.ToBytes());
  entry.set_entry_id(summary.entry_id.ToBytes());
  entry.set_cache_namespace(summary.cache_namespace);
  entry.set_pinned(summary.pinned);
  entry.set_graph_name(summary.graph_name);
  entry.set_target(summary.target);
  entry.set_bytes(static_cast<uint64_t>(summary.bytes));
  entry.set_created_unix_ms(absl::ToUnixMillis(summary.created));
  if (summary.last_used != absl::InfinitePast()) {
    entry.set_last_used_unix_ms(absl::ToUnixMillis(summary.last_used));
  }
  entry.set_kernels(static_cast<uint32_t>(summary.kernels));
  FillParts(summary.parts, *entry.mutable_parts());
  for (const std::string& guard : summary.guards) entry.add_guards(guard);
  return entry;
}

// Where a page begins; none: at the start.
absl::StatusOr<std::optional<Digest>> PlaceOf(const std::string& after) {
  if (after.empty()) return std::nullopt;
  const std::optional<Digest> place = Digest::FromBytes(after);
  if (place.has_value()) return place;
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("page: found ", after.size(),
                   " bytes to continue after, expected the 32 of a "
                   "key"));
}

constexpr size_t kKeyDigits = 64;

// What a key prefix or a request asks for, as key parts and graph text.
struct Asked {
  std::vector<KeyPart> parts;
  std::string graph_text;
  // In force for a request's target; null when a key was asked for.
  std::shared_ptr<const TuningDecisions> tuning;
};

absl::StatusOr<Asked> AskedBy(const ArtifactCache& cache,
                              const TuningCache& tuning,
                              const BuildIdentity& build,
                              const wire::ExplainRequest& request,
                              absl::string_view among, const IsGone& is_gone) {
  if (request.has_request()) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const CompileTask> task,
                     MakeTask(request.request(), build, tuning));
    return Asked{task->key.parts, GraphLines(task->request().graph()),
                 task->tuning};
  }
  RETURN_IF_ERROR(CheckKeyPrefix(request.key_prefix_hex()));
  ASSIGN_OR_RETURN(const EntryPage found,
                   cache.List({.key_prefix_hex = request.key_prefix_hex(),
                               .cache_namespace = std::string(among),
                               .most = 1,
                               .most_keys = kPageKeys,
                               .is_gone = is_gone}));
  if (found.entries.empty()) {
    if (found.next.has_value()) {
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat("key ", request.key_prefix_hex(),
                                    ": not among the first ", kPageKeys,
                                    " keys; give more digits"));
    }
    return absl::NotFoundError(
        absl::StrCat("key ", request.key_prefix_hex(), ": not in the cache"));
  }
  return Asked{found.entries.front().parts, "", nullptr};
}

// Why an entry of the asked key is not served for its tuning; empty: it is.
std::string TuningDifferenceOf(const Asked& asked, const EntrySummary& entry) {
  if (asked.tuning == nullptr) return "";
  for (const std::string& line : entry.tuned) {
    const std::string difference = TuningDifference(line, *asked.tuning);
    if (!difference.empty()) return absl::StrCat("tuning: ", difference);
  }
  return "";
}

void FillNearest(const Asked& asked, NearestEntry& nearest,
                 wire::ExplainReply& reply) {
  *reply.mutable_nearest() = ToWire(nearest.entry);
  if (nearest.difference.part.empty()) {
    nearest.difference.detail = TuningDifferenceOf(asked, nearest.entry);
    if (!nearest.difference.detail.empty()) nearest.difference.part = "tuning";
  }
  reply.set_found(nearest.difference.part.empty());
  reply.set_first_difference(nearest.difference.part);
  reply.set_detail(nearest.graph_difference.empty() ? nearest.difference.detail
                                                    : nearest.graph_difference);
}

}  // namespace

absl::Status CheckKeyPrefix(absl::string_view prefix) {
  if (prefix.size() <= kKeyDigits &&
      prefix.find_first_not_of("0123456789abcdef") == absl::string_view::npos) {
    return absl::OkStatus();
  }
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("key: found \"", prefix.substr(0, 80),
                                "\", expected the first of its ", kKeyDigits,
                                " digits, 0 to 9 and a to f"));
}

absl::StatusOr<wire::ListReply> ListEntries(const ArtifactCache& cache,
                                            const wire::ListRequest& request,
                                            const IsGone& is_gone) {
  RETURN_IF_ERROR(CheckKeyPrefix(request.key_prefix_hex()));
  PageQuery query{.key_prefix_hex = request.key_prefix_hex(),
                  .cache_namespace = request.cache_namespace(),
                  .most_keys = kPageKeys,
                  .is_gone = is_gone};
  ASSIGN_OR_RETURN(query.after, PlaceOf(request.after()));
  const int64_t limit = request.limit();
  query.most = limit == 0 ? kPageEntries : std::min(limit, kPageEntries);
  ASSIGN_OR_RETURN(const EntryPage page, cache.List(query));
  wire::ListReply reply;
  for (const EntrySummary& summary : page.entries)
    *reply.add_entries() = ToWire(summary);
  if (page.next.has_value()) reply.set_next(page.next->ToBytes());
  return reply;
}

absl::StatusOr<wire::ShowReply> ShowEntry(const ArtifactCache& cache,
                                          const wire::ShowRequest& request) {
  RETURN_IF_ERROR(CheckKeyPrefix(request.key_prefix_hex()));
  ASSIGN_OR_RETURN(
      const ShownEntry shown,
      cache.Show(request.key_prefix_hex(), request.cache_namespace()));
  wire::ShowReply reply;
  *reply.mutable_entry() = ToWire(shown.summary);
  if (!reply.mutable_artifact()->ParseFromString(shown.artifact.artifact())) {
    return MakeError(ErrorReason::kArtifactCorrupt,
                     absl::StrCat("key ", request.key_prefix_hex(),
                                  ": its entry is not an artifact"));
  }
  for (const wire::JobPhase& phase : shown.phases) *reply.add_phases() = phase;
  for (absl::string_view line : absl::StrSplit(shown.graph_text, '\n')) {
    const std::string number = absl::StrCat("node ", reply.nodes_size(), ": ");
    if (absl::ConsumePrefix(&line, number)) reply.add_nodes(std::string(line));
  }
  return reply;
}

absl::StatusOr<wire::ExplainReply> ExplainKey(
    const ArtifactCache& cache, const TuningCache& tuning,
    const BuildIdentity& build, const wire::ExplainRequest& request,
    absl::string_view among, const IsGone& is_gone) {
  ASSIGN_OR_RETURN(const Asked asked,
                   AskedBy(cache, tuning, build, request, among, is_gone));
  ASSIGN_OR_RETURN(Nearness near, cache.Nearest(asked.parts, asked.graph_text,
                                                among, is_gone));
  wire::ExplainReply reply;
  FillParts(asked.parts, *reply.mutable_asked());
  if (near.nearest.has_value()) FillNearest(asked, *near.nearest, reply);
  if (!near.saw_all) {
    reply.set_detail(absl::StrCat(reply.detail(),
                                  reply.detail().empty() ? "" : "; ",
                                  "there are more keys than were looked at"));
  }
  return reply;
}

absl::StatusOr<wire::PurgeReply> PurgeEntries(ArtifactCache& cache,
                                              UnitCache& units,
                                              const wire::PurgeRequest& request,
                                              const IsGone& is_gone) {
  RETURN_IF_ERROR(CheckKeyPrefix(request.key_prefix_hex()));
  PurgeQuery query;
  query.most_keys = kPageKeys;
  query.is_gone = is_gone;
  ASSIGN_OR_RETURN(query.after, PlaceOf(request.after()));
  query.key_prefix_hex = request.key_prefix_hex();
  if (request.older_than_ms() > 0) {
    query.unused_for = absl::Milliseconds(request.older_than_ms());
  }
  query.device = request.device();
  query.cache_namespace = request.cache_namespace();
  query.all = request.all();
  query.dry_run = request.dry_run();
  if (!query.all && query.key_prefix_hex.empty() && query.device.empty() &&
      !query.unused_for.has_value()) {
    return MakeError(ErrorReason::kBadOption,
                     "purge: nothing says what to remove; give a key, an age, "
                     "a device or all");
  }
  if (!query.device.empty() && !IsTargetWord(query.device)) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("purge: device: found \"", query.device.substr(0, 40),
                     "\", expected cpu, cuda, an architecture like sm_90 "
                     "or a level like x86-64-v3"));
  }
  ASSIGN_OR_RETURN(PurgeOutcome outcome, cache.Purge(query));
  // Units are shared by entries and belong to none: all of them go or none.
  const bool everything =
      query.all && query.key_prefix_hex.empty() && query.device.empty() &&
      query.cache_namespace.empty() && !query.unused_for.has_value();
  if (everything && !outcome.next.has_value()) {
    ASSIGN_OR_RETURN(const int64_t bytes,
                     query.dry_run ? units.Bytes() : units.Clear());
    outcome.bytes += bytes;
  }
  wire::PurgeReply reply;
  reply.set_entries(static_cast<uint64_t>(outcome.entries));
  reply.set_bytes(static_cast<uint64_t>(outcome.bytes));
  if (outcome.next.has_value()) reply.set_next(outcome.next->ToBytes());
  if (query.dry_run) {
    for (const EntrySummary& victim : outcome.victims) {
      *reply.add_victims() = ToWire(victim);
    }
  } else {
    LogInfo("cache.purged",
            {{"entries", reply.entries()}, {"bytes", reply.bytes()}});
  }
  return reply;
}

absl::StatusOr<wire::PinReply> PinEntries(ArtifactCache& cache,
                                          const wire::PinRequest& request,
                                          const IsGone& is_gone) {
  if (request.key_prefix_hex().empty()) {
    return MakeError(ErrorReason::kBadOption,
                     "pin: no key was given; give its first digits");
  }
  RETURN_IF_ERROR(CheckKeyPrefix(request.key_prefix_hex()));
  PageQuery query{.key_prefix_hex = request.key_prefix_hex(),
                  .cache_namespace = request.cache_namespace(),
                  .most = kPageEntries,
                  .most_keys = kPageKeys,
                  .is_gone = is_gone};
  ASSIGN_OR_RETURN(query.after, PlaceOf(request.after()));
  ASSIGN_OR_RETURN(const EntryPage page,
                   cache.SetPinned(query, !request.unpin()));
  if (page.entries.empty() && !query.after.has_value() &&
      !page.next.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("key ", request.key_prefix_hex(), ": not in the cache"));
  }
  wire::PinReply reply;
  for (const EntrySummary& entry : page.entries)
    *reply.add_entries() = ToWire(entry);
  if (page.next.has_value()) reply.set_next(page.next->ToBytes());
  return reply;
}

}  // namespace kiln

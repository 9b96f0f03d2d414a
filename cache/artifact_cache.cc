#include "cache/artifact_cache.h"

#include <zstd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cache/explain.h"
#include "cache/guard_match.h"
#include "cache/tuning_match.h"
#include "proto/base/assemble.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr size_t kMaxGraphText = size_t{64} << 20;

std::string Compress(absl::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(),
                                    text.size(), /*compressionLevel=*/1);
  packed.resize(ZSTD_isError(size) ? 0 : size);
  return packed;
}

// Empty for what is no compressed text: only explanations suffer.
std::string Decompress(absl::string_view packed) {
  const unsigned long long size =
      ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ||
      size > kMaxGraphText) {
    return "";
  }
  std::string text(size, '\0');
  const size_t got =
      ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
  return ZSTD_isError(got) ? "" : text;
}

Digest EntryId(const Digest& key, const wire::GuardSet& guards,
               const std::vector<std::string>& tuned) {
  Sha256 sha;
  sha.AddField("kiln entry 1").Add(key.bytes());
  sha.AddField(DeterministicBytes(guards)).AddNumber(tuned.size());
  for (const std::string& decision : tuned) sha.AddField(decision);
  return sha.Finish();
}

// The stored group, or why there is none to be had.
absl::StatusOr<wire::CacheGroup> ReadGroup(const BlobStore& store,
                                           const Digest& key) {
  ASSIGN_OR_RETURN(const Blob blob, store.Get(key));
  wire::CacheGroup group;
  if (!group.ParseFromString(*blob) || group.compile_key() != key.bytes()) {
    return MakeError(ErrorReason::kArtifactCorrupt,
                     absl::StrCat("entries of key ", key.ShortHex(),
                                  ": no CacheGroup of that key"));
  }
  return group;
}

bool IsBroken(const absl::Status& status) {
  const auto reason = ReasonOf(status);
  return reason == ErrorReason::kArtifactCorrupt ||
         reason == ErrorReason::kArtifactUntrusted;
}

std::vector<KeyPart> PartsOf(const wire::CacheGroup& group) {
  std::vector<KeyPart> parts;
  for (const wire::CacheKeyPart& part : group.parts()) {
    parts.push_back({part.name(),
                     Digest::FromBytes(part.digest()).value_or(Digest()),
                     part.text()});
  }
  return parts;
}

bool Serves(const wire::CacheEntry& entry, const EntryQuery& query) {
  const uint32_t driver = query.driver_cuda_version;
  return (driver == 0 || entry.least_driver_cuda_version() <= driver) &&
         GuardsHold(entry.guards(), query.values) &&
         TuningHolds(entry.tuned(), query.decisions);
}

bool HasWord(absl::string_view text, absl::string_view word) {
  for (const absl::string_view part : absl::StrSplit(text, ' ')) {
    if (part == word) return true;
  }
  return false;
}

}  // namespace

absl::string_view OutcomeName(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kHit:
      return "hit";
    case CacheOutcome::kMiss:
      return "miss";
    case CacheOutcome::kGuardMiss:
      return "guard_miss";
    case CacheOutcome::kBroken:
      return "broken";
  }
  return "?";
}

CacheAnswer ArtifactCache::Lookup(const Digest& compile_key,
                                  const EntryQuery& query) {
  absl::StatusOr<wire::CacheGroup> group =
      ReadGroup(stores_.serve, compile_key);
  CacheAnswer answer;
  if (!group.ok()) {
    if (absl::IsNotFound(group.status())) return answer;
    if (IsBroken(group.status())) {
      answer.outcome = CacheOutcome::kBroken;
      IgnoreBecause(stores_.serve.Delete(compile_key),
                    "the next lookup finds it broken again");
    } else {
      LogWarning("cache.read_failed", {{"key", compile_key.ShortHex()},
                                       {"error", group.status().ToString()}});
    }
    return answer;
  }
  for (wire::CacheEntry& entry : *group->mutable_entries()) {
    if (!Serves(entry, query)) continue;
    stores_.usage.Touch(compile_key);
    answer.outcome = CacheOutcome::kHit;
    answer.artifact = std::move(*entry.mutable_artifact());
    answer.entry_id = Digest::FromBytes(entry.entry_id()).value_or(Digest());
    return answer;
  }
  answer.outcome = CacheOutcome::kGuardMiss;
  return answer;
}

absl::Status ArtifactCache::Insert(NewEntry entry) {
  const Digest& key = entry.key.digest;
  const Digest id = EntryId(key, entry.guards, entry.tuned);
  wire::CacheGroup next;
  next.set_compile_key(key.ToBytes());
  for (const KeyPart& part : entry.key.parts) {
    wire::CacheKeyPart* out = next.add_parts();
    out->set_name(part.name);
    out->set_digest(part.digest.ToBytes());
    out->set_text(part.text);
  }
  next.set_graph_name(entry.graph_name);
  next.set_target(entry.target);
  next.set_graph_text(Compress(entry.graph_text));
  wire::CacheEntry* first = next.add_entries();
  first->set_entry_id(id.ToBytes());
  *first->mutable_artifact() = std::move(entry.artifact);
  *first->mutable_guards() = std::move(entry.guards);
  for (std::string& decision : entry.tuned) {
    first->add_tuned(std::move(decision));
  }
  first->set_created_unix_ms(absl::ToUnixMillis(stores_.clock.Now()));
  first->set_kernels(entry.kernels);
  first->set_least_driver_cuda_version(entry.least_driver_cuda_version);

  // Two writers of one key would lose an entry.
  const KeyClaims::Claim claim(claims_, key);
  absl::StatusOr<wire::CacheGroup> before = ReadGroup(stores_.serve, key);
  if (before.ok()) {
    for (wire::CacheEntry& old : *before->mutable_entries()) {
      if (next.entries_size() == kMaxEntriesPerKey) break;
      if (old.entry_id() == id.bytes()) continue;
      *next.add_entries() = std::move(old);
    }
  }
  return stores_.serve.Put(key, DeterministicBytes(next));
}

absl::Status ArtifactCache::ForEachGroup(absl::string_view key_prefix_hex,
                                         const VisitGroup& visit) const {
  const std::string prefix = absl::AsciiStrToLower(key_prefix_hex);
  std::vector<Digest> keys;
  RETURN_IF_ERROR(stores_.inspect.Scan([&](const Digest& key, int64_t) {
    if (prefix.empty() || key.Hex().compare(0, prefix.size(), prefix) == 0) {
      keys.push_back(key);
    }
    return absl::OkStatus();
  }));
  std::sort(keys.begin(), keys.end());
  for (const Digest& key : keys) {
    const absl::StatusOr<wire::CacheGroup> group =
        ReadGroup(stores_.inspect, key);
    if (!group.ok()) {
      const bool gone = absl::IsNotFound(group.status());
      if (gone || IsBroken(group.status())) continue;
      return group.status();
    }
    RETURN_IF_ERROR(visit(key, *group));
  }
  return absl::OkStatus();
}

EntrySummary ArtifactCache::Summary(const Digest& key,
                                    const wire::CacheGroup& group,
                                    const wire::CacheEntry& entry) const {
  EntrySummary summary;
  summary.compile_key = key;
  summary.entry_id = Digest::FromBytes(entry.entry_id()).value_or(Digest());
  summary.parts = PartsOf(group);
  summary.guards = GuardTexts(entry.guards());
  summary.tuned.assign(entry.tuned().begin(), entry.tuned().end());
  summary.graph_name = group.graph_name();
  summary.target = group.target();
  summary.bytes = entry.artifact().artifact().size();
  summary.kernels = entry.kernels();
  summary.created = absl::FromUnixMillis(entry.created_unix_ms());
  summary.last_used = std::max(summary.created, stores_.usage.LastUsed(key));
  return summary;
}

absl::StatusOr<std::vector<EntrySummary>> ArtifactCache::List(
    absl::string_view key_prefix_hex, int limit) const {
  std::vector<EntrySummary> entries;
  // Cancelled is the way out of the walk once there are enough.
  const absl::Status walked = ForEachGroup(
      key_prefix_hex,
      [&](const Digest& key, const wire::CacheGroup& group) -> absl::Status {
        for (const wire::CacheEntry& entry : group.entries()) {
          if (limit > 0 && static_cast<int>(entries.size()) == limit) {
            return absl::CancelledError();
          }
          entries.push_back(Summary(key, group, entry));
        }
        return absl::OkStatus();
      });
  if (!walked.ok() && !absl::IsCancelled(walked)) return walked;
  return entries;
}

absl::StatusOr<wire::CacheGroup> ArtifactCache::Show(
    absl::string_view key_prefix_hex) const {
  std::optional<wire::CacheGroup> found;
  RETURN_IF_ERROR(ForEachGroup(
      key_prefix_hex,
      [&](const Digest&, const wire::CacheGroup& group) -> absl::Status {
        if (found.has_value()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "key ", key_prefix_hex, ": fits several; give more digits"));
        }
        found = group;
        return absl::OkStatus();
      }));
  if (found.has_value()) return *std::move(found);
  return absl::NotFoundError(
      absl::StrCat("key ", key_prefix_hex, ": not in the cache"));
}

absl::StatusOr<PurgeOutcome> ArtifactCache::Purge(const PurgeQuery& query) {
  const bool narrowed = !query.key_prefix_hex.empty() ||
                        query.unused_for.has_value() || !query.device.empty();
  PurgeOutcome outcome;
  if (!narrowed && !query.all) return outcome;
  const absl::Time now = stores_.clock.Now();
  std::vector<Digest> victims;
  RETURN_IF_ERROR(ForEachGroup(
      query.key_prefix_hex,
      [&](const Digest& key, const wire::CacheGroup& group) {
        if (!query.device.empty() && !HasWord(group.target(), query.device)) {
          return absl::OkStatus();
        }
        std::vector<EntrySummary> entries;
        for (const wire::CacheEntry& entry : group.entries()) {
          entries.push_back(Summary(key, group, entry));
          const absl::Duration unused = now - entries.back().last_used;
          if (query.unused_for.has_value() && unused < *query.unused_for) {
            return absl::OkStatus();
          }
        }
        victims.push_back(key);
        for (EntrySummary& entry : entries) {
          outcome.bytes += entry.bytes;
          outcome.victims.push_back(std::move(entry));
        }
        return absl::OkStatus();
      }));
  if (query.dry_run) return outcome;
  for (const Digest& key : victims) {
    // An entry that is being added to the group survives it, or goes with it.
    const KeyClaims::Claim claim(claims_, key);
    RETURN_IF_ERROR(stores_.serve.Delete(key));
    stores_.usage.Forget(key);
  }
  return outcome;
}

absl::StatusOr<std::optional<NearestEntry>> ArtifactCache::Nearest(
    const std::vector<KeyPart>& asked, absl::string_view graph_text) const {
  std::optional<NearestEntry> nearest;
  int best = -1;
  RETURN_IF_ERROR(
      ForEachGroup("", [&](const Digest& key, const wire::CacheGroup& group) {
        if (group.entries_size() == 0) return absl::OkStatus();
        const std::vector<KeyPart> parts = PartsOf(group);
        KeyDifference difference = DiffKeys(asked, parts);
        const bool same_graph = std::any_of(
            asked.begin(), asked.end(), [&parts](const KeyPart& part) {
              return part.name == "graph" &&
                     std::find(parts.begin(), parts.end(), part) != parts.end();
            });
        const int score = difference.parts_equal + (same_graph ? 1000 : 0);
        if (score <= best) return absl::OkStatus();
        best = score;
        nearest = NearestEntry{Summary(key, group, group.entries(0)),
                               std::move(difference), ""};
        if (!same_graph) {
          nearest->graph_difference =
              FirstDifferentLine(graph_text, Decompress(group.graph_text()));
        }
        return absl::OkStatus();
      }));
  return nearest;
}

}  // namespace kiln

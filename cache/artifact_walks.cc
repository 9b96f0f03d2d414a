// What people ask of the cache: walks over all of it.

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cache/artifact_cache.h"
#include "cache/entry_facts.h"
#include "cache/explain.h"
#include "cache/guard_match.h"
#include "proto/base/assemble.h"
#include "proto/base/packed_bytes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr size_t kMaxGraphText = size_t{64} << 20;
// Keys that Nearest looks at where it knows some of the asked graph: all of a small
// cache.
constexpr int64_t kMostBesideGraph = 64;
// So many digits of a key fit few others.
constexpr size_t kFewKeysDigits = 8;

bool HasWord(absl::string_view text, absl::string_view word) {
  for (const absl::string_view part : absl::StrSplit(text, ' ')) {
    if (part == word) return true;
  }
  return false;
}

bool IsGone(const std::function<bool()>& is_gone) {
  return is_gone != nullptr && is_gone();
}
absl::Status Gone() {
  return absl::CancelledError("cache: the caller of the walk is gone");
}

// The way out of a walk that has its page.
absl::Status PageIsFull() { return absl::OutOfRangeError("the page is full"); }
bool IsEndOfPage(const absl::Status& status) {
  return absl::IsOutOfRange(status);
}

}  // namespace

std::pair<std::vector<Digest>, bool> ArtifactCache::KeysOf(
    absl::string_view cache_namespace, int64_t most) const {
  // Asked first: what is added meanwhile is new.
  bool are_all = stores_.ledger.is_whole();
  std::vector<Digest> entries =
      stores_.ledger.EntriesOf(cache_namespace, most + 1);
  if (static_cast<int64_t>(entries.size()) > most) {
    are_all = false;
    entries.pop_back();
  }
  std::set<Digest> keys;
  for (const Digest& entry : entries) {
    const absl::StatusOr<StoredFacts> facts = stores_.ledger.FactsOf(entry);
    if (facts.ok()) {
      keys.insert(facts->compile_key);
    } else if (stores_.ledger.Knows(entry)) {  // not gone meanwhile
      are_all = false;
    }
  }
  return {std::vector<Digest>(keys.begin(), keys.end()), are_all};
}

absl::Status ArtifactCache::Walk(
    absl::string_view key_prefix_hex, absl::string_view cache_namespace,
    const std::optional<Digest>& after,
    absl::FunctionRef<absl::Status(const Digest&, const wire::KeyIndex&)> visit)
    const {
  if (!cache_namespace.empty() && key_prefix_hex.size() < kFewKeysDigits) {
    const auto [keys, are_all] = KeysOf(cache_namespace, kFewEntries);
    if (are_all) {
      const std::string prefix = absl::AsciiStrToLower(key_prefix_hex);
      for (const Digest& key : keys) {
        const std::string hex = key.Hex();
        if ((after.has_value() && !(*after < key)) ||
            !absl::StartsWith(hex, prefix)) {
          continue;
        }
        RETURN_IF_ERROR(indexes_.ForEach(hex, /*after=*/std::nullopt, visit));
      }
      return absl::OkStatus();
    }
  }
  return indexes_.ForEach(key_prefix_hex, after, visit);
}

EntrySummary ArtifactCache::Summary(const Digest& key,
                                    const wire::KeyFacts& facts,
                                    const wire::EntryFacts& entry) const {
  EntrySummary summary;
  summary.compile_key = key;
  summary.entry_id = IdOf(entry);
  summary.parts = PartsOf(facts);
  summary.guards = GuardTexts(entry.guards());
  summary.tuned.assign(entry.tuned().begin(), entry.tuned().end());
  summary.cache_namespace = facts.cache_namespace();
  summary.graph_name = facts.graph_name();
  summary.target = facts.target();
  summary.bytes = static_cast<int64_t>(entry.artifact_bytes());
  summary.kernels = static_cast<int>(entry.kernels());
  summary.created = absl::FromUnixMillis(entry.created_unix_ms());
  summary.last_used =
      std::max(summary.created, stores_.ledger.LastUsed(summary.entry_id));
  summary.pinned = stores_.ledger.IsPinned(summary.entry_id);
  return summary;
}

absl::StatusOr<EntryPage> ArtifactCache::List(const PageQuery& query) const {
  EntryPage page;
  int64_t keys = 0;
  std::optional<Digest> last;
  const absl::Status walked =
      Walk(query.key_prefix_hex, query.cache_namespace, query.after,
           [&](const Digest& key, const wire::KeyIndex& index) -> absl::Status {
             if (IsGone(query.is_gone)) return Gone();
             if (static_cast<int64_t>(page.entries.size()) >= query.most ||
                 (query.most_keys > 0 && keys++ == query.most_keys)) {
               page.next = last;
               return PageIsFull();
             }
             last = key;
             if (!IsOf(index.key(), query.cache_namespace))
               return absl::OkStatus();
             for (const wire::EntryFacts& entry : index.entries())
               page.entries.push_back(Summary(key, index.key(), entry));
             return absl::OkStatus();
           });
  if (!walked.ok() && !IsEndOfPage(walked)) return walked;
  return page;
}

absl::StatusOr<EntryPage> ArtifactCache::SetPinned(const PageQuery& query,
                                                   bool pinned) {
  ASSIGN_OR_RETURN(EntryPage page, List(query));
  for (EntrySummary& entry : page.entries) {
    RETURN_IF_ERROR(stores_.ledger.SetPinned(entry.entry_id, pinned));
    entry.pinned = pinned;
  }
  return page;
}

std::string ArtifactCache::GraphText(const EntrySummary& entry) const {
  const KeyPart* graph = GraphPart(entry.parts);
  if (graph == nullptr) return "";
  const absl::StatusOr<Blob> text =
      stores_.graphs.Get(LinesRecord(graph->digest, entry.cache_namespace));
  if (!text.ok()) return "";
  return Unpack(**text, kMaxGraphText).value_or("");
}

absl::StatusOr<ShownEntry> ArtifactCache::Show(
    absl::string_view key_prefix_hex, absl::string_view cache_namespace) const {
  std::optional<ShownEntry> found;
  int64_t keys = 0;
  RETURN_IF_ERROR(Walk(
      key_prefix_hex, cache_namespace, /*after=*/std::nullopt,
      [&](const Digest& key, const wire::KeyIndex& index) -> absl::Status {
        if (keys++ == kMostLooked) {
          return absl::InvalidArgumentError(
              absl::StrCat("key ", key_prefix_hex, ": fits more than ",
                           kMostLooked, "; give more digits"));
        }
        if (!IsOf(index.key(), cache_namespace)) return absl::OkStatus();
        if (found.has_value()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "key ", key_prefix_hex, ": fits several; give more digits"));
        }
        if (index.entries().empty()) return absl::OkStatus();
        found.emplace();
        found->summary = Summary(key, index.key(), index.entries(0));
        ASSIGN_OR_RETURN(
            wire::CacheEntry entry,
            ReadEntry(stores_.entries.inspect, key, found->summary.entry_id));
        found->artifact = std::move(*entry.mutable_artifact());
        found->phases.assign(
            std::make_move_iterator(entry.mutable_phases()->begin()),
            std::make_move_iterator(entry.mutable_phases()->end()));
        return absl::OkStatus();
      }));
  if (found.has_value()) {
    found->graph_text = GraphText(found->summary);
    return *std::move(found);
  }
  return absl::NotFoundError(
      absl::StrCat("key ", key_prefix_hex, ": not in the cache"));
}

absl::StatusOr<PurgeOutcome> ArtifactCache::Purge(const PurgeQuery& query) {
  const bool narrowed = !query.key_prefix_hex.empty() ||
                        query.unused_for.has_value() || !query.device.empty();
  PurgeOutcome outcome;
  if (!narrowed && !query.all) return outcome;
  const absl::Time now = stores_.ledger.Now();
  int64_t keys = 0;
  std::optional<Digest> last;
  const absl::Status walked = Walk(
      query.key_prefix_hex, query.cache_namespace, query.after,
      [&](const Digest& key, const wire::KeyIndex& index) -> absl::Status {
        if (IsGone(query.is_gone)) return Gone();
        if (query.most_keys > 0 && keys++ == query.most_keys) {
          outcome.next = last;
          return PageIsFull();
        }
        last = key;
        if (!IsOf(index.key(), query.cache_namespace)) return absl::OkStatus();
        if (!query.device.empty() &&
            !HasWord(index.key().target(), query.device)) {
          return absl::OkStatus();
        }
        for (const wire::EntryFacts& facts : index.entries()) {
          const absl::Time used =
              std::max(absl::FromUnixMillis(facts.created_unix_ms()),
                       stores_.ledger.LastUsed(IdOf(facts)));
          if (query.unused_for.has_value() && now - used < *query.unused_for)
            continue;
          ++outcome.entries;
          outcome.bytes += static_cast<int64_t>(facts.artifact_bytes());
          if (outcome.victims.size() < PurgeOutcome::kMostTold)
            outcome.victims.push_back(Summary(key, index.key(), facts));
          if (query.dry_run) continue;
          // Out of the index first: whoever finds it there finds the entry.
          RETURN_IF_ERROR(indexes_.Drop(key, IdOf(facts)));
          RETURN_IF_ERROR(stores_.entries.serve.Delete(IdOf(facts)));
        }
        return absl::OkStatus();
      });
  if (!walked.ok() && !IsEndOfPage(walked)) return walked;
  return outcome;
}

absl::StatusOr<bool> ArtifactCache::LookAt(
    absl::string_view cache_namespace, int64_t most,
    absl::FunctionRef<absl::Status(const Digest&, const wire::KeyIndex&)> visit)
    const {
  if (most <= 0) return false;
  if (cache_namespace.empty()) {
    int64_t keys = 0;
    const absl::Status walked = indexes_.ForEach(
        "", /*after=*/std::nullopt,
        [&](const Digest& key, const wire::KeyIndex& index) {
          return keys++ == most ? PageIsFull() : visit(key, index);
        });
    if (IsEndOfPage(walked)) return false;
    RETURN_IF_ERROR(walked);
    return true;
  }
  // Others' keys, which may be many more, are not looked at.
  const auto [keys, are_all] = KeysOf(cache_namespace, most);
  for (const Digest& key : keys)
    RETURN_IF_ERROR(indexes_.ForEach(key.Hex(), /*after=*/std::nullopt, visit));
  return are_all;
}

absl::Status ArtifactCache::LookAtGraph(
    const std::vector<KeyPart>& asked, absl::string_view cache_namespace,
    absl::FunctionRef<absl::Status(const Digest&, const wire::KeyIndex&)> visit)
    const {
  const KeyPart* graph = GraphPart(asked);
  const KeyPart* own = PartNamed("namespace", asked);
  if (graph == nullptr || (cache_namespace.empty() && own == nullptr))
    return absl::OkStatus();
  const std::vector<Digest> keys = graph_keys_.Find(
      graph->digest,
      cache_namespace.empty() ? own->digest : Sha256Of(cache_namespace));
  for (const Digest& key : keys)
    RETURN_IF_ERROR(indexes_.ForEach(key.Hex(), /*after=*/std::nullopt, visit));
  return absl::OkStatus();
}

absl::StatusOr<Nearness> ArtifactCache::Nearest(
    const std::vector<KeyPart>& asked, absl::string_view graph_text,
    absl::string_view cache_namespace, const std::function<bool()>& is_gone,
    int64_t most_looked) const {
  const KeyPart* graph = GraphPart(asked);
  Nearness near;
  int best = -1;
  const auto look = [&](const Digest& key, const wire::KeyIndex& index) {
    if (IsGone(is_gone)) return Gone();
    if (index.entries().empty() || !IsOf(index.key(), cache_namespace))
      return absl::OkStatus();
    const std::vector<KeyPart> parts = PartsOf(index.key());
    KeyDifference difference = DiffKeys(asked, parts);
    const KeyPart* other = GraphPart(parts);
    const bool same_graph =
        graph != nullptr && other != nullptr && *graph == *other;
    const int score = difference.parts_equal + (same_graph ? 1000 : 0);
    if (score <= best) return absl::OkStatus();
    best = score;
    near.nearest = NearestEntry{Summary(key, index.key(), index.entries(0)),
                                std::move(difference), ""};
    return absl::OkStatus();
  };
  if (const std::optional<Digest> itself = DigestOfParts(asked)) {
    const auto index = indexes_.Read(*itself);
    if (index.ok()) RETURN_IF_ERROR(look(*itself, *index));
    if (near.nearest.has_value()) return near;
  }
  RETURN_IF_ERROR(LookAtGraph(asked, cache_namespace, look));
  // The list may have been begun anew (graph_keys.h): it does not tell that there are
  // no others.
  const int64_t most = near.nearest.has_value()
                           ? std::min(kMostBesideGraph, most_looked)
                           : most_looked;
  ASSIGN_OR_RETURN(near.saw_all, LookAt(cache_namespace, most, look));
  if (!near.nearest.has_value()) return near;
  const KeyPart* other = GraphPart(near.nearest->entry.parts);
  if (other == nullptr || (graph != nullptr && *graph == *other)) return near;
  // Without the text only this explanation suffers.
  const std::string text = GraphText(near.nearest->entry);
  if (!text.empty())
    near.nearest->graph_difference = FirstDifferentLine(graph_text, text);
  return near;
}

}  // namespace kiln

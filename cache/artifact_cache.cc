#include "cache/artifact_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cache/entry_facts.h"
#include "cache/explain.h"
#include "cache/sound_entry.h"
#include "cache/tuning_match.h"
#include "proto/base/assemble.h"
#include "proto/base/log.h"
#include "proto/base/packed_bytes.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The compiler's sources; zero for a key that does not say.
Digest BuildOf(const wire::KeyFacts& key) {
  for (const wire::CacheKeyPart& part : key.parts()) {
    if (part.name() == "compiler")
      return Digest::FromBytes(part.digest()).value_or(Digest());
  }
  return Digest();
}

bool IsBroken(const absl::Status& status) {
  const auto reason = ReasonOf(status);
  return reason == ErrorReason::kArtifactCorrupt ||
         reason == ErrorReason::kArtifactUntrusted;
}

bool Serves(const ReadyIndex::Row& entry, const EntryQuery& query) {
  const uint32_t driver = query.driver_cuda_version;
  return (driver == 0 || entry.least_driver_cuda_version <= driver) &&
         entry.guards.Hold(query.values) &&
         TuningHolds(entry.tuned, query.decisions);
}

bool IsOf(const ReadyIndex& index, absl::string_view cache_namespace) {
  return cache_namespace.empty() || index.cache_namespace == cache_namespace;
}

// ARTIFACT_UNTRUSTED when the artifact's signer does not count in its namespace.
// One that is not signed is refused by whoever gets it.
absl::Status CheckSigner(const wire::CacheEntry& entry,
                         const TrustedKeys& trusted) {
  if (entry.artifact().signature().empty()) return absl::OkStatus();
  wire::ArtifactEnvelope envelope;
  if (!envelope.ParseFromString(entry.artifact().envelope())) {
    return MakeError(ErrorReason::kArtifactUntrusted,
                     "entry: the envelope of its artifact cannot be read");
  }
  return trusted.CheckCounts(envelope.signer(), entry.key().cache_namespace());
}

wire::CacheEntry RecordOf(NewEntry entry, const Digest& id, absl::Time now) {
  wire::CacheEntry record;
  wire::KeyFacts& key = *record.mutable_key();
  key = KeyFactsOf(entry.key, entry.cache_namespace);
  key.set_graph_name(entry.graph_name);
  key.set_target(entry.target);
  wire::EntryFacts& facts = *record.mutable_facts();
  facts.set_entry_id(id.ToBytes());
  *facts.mutable_guards() = std::move(entry.guards);
  for (std::string& decision : entry.tuned)
    facts.add_tuned(std::move(decision));
  facts.set_least_driver_cuda_version(entry.least_driver_cuda_version);
  facts.set_created_unix_ms(absl::ToUnixMillis(now));
  facts.set_build_ms(absl::ToInt64Milliseconds(entry.build));
  facts.set_artifact_bytes(entry.artifact.artifact().size());
  facts.set_kernels(entry.kernels);
  *record.mutable_artifact() = std::move(entry.artifact);
  record.mutable_phases()->Assign(std::make_move_iterator(entry.phases.begin()),
                                  std::make_move_iterator(entry.phases.end()));
  return record;
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

absl::StatusOr<wire::CacheEntry> ArtifactCache::ReadToServe(
    const Digest& key, const Digest& entry_id) {
  ASSIGN_OR_RETURN(const Blob blob, stores_.entries.serve.Get(entry_id));
  ASSIGN_OR_RETURN(wire::CacheEntry entry,
                   ReadEntryRecord(key, entry_id, *blob));
  if (stores_.entries.memory != nullptr) {
    IgnoreBecause(
        ready_entries_
            .Get(entry_id, blob,
                 [&entry](const Blob& bytes) { return ReadyOf(*bytes, entry); })
            .status(),
        "LookupInMemory leaves it to Lookup then");
  }
  return entry;
}

absl::StatusOr<wire::CacheEntry> ArtifactCache::ReadEntry(
    const BlobStore& entries, const Digest& key, const Digest& entry_id) const {
  ASSIGN_OR_RETURN(const Blob blob, entries.Get(entry_id));
  return ReadEntryRecord(key, entry_id, *blob);
}

absl::StatusOr<std::shared_ptr<const ReadyIndex>> ArtifactCache::Ready(
    const Digest& compile_key, const Blob& record) {
  return ready_indexes_.Get(compile_key, record,
                            [&compile_key](const Blob& bytes) {
                              return ReadReadyIndex(compile_key, *bytes);
                            });
}

std::optional<ReadyHit> ArtifactCache::LookupInMemory(
    const Digest& compile_key, const EntryQuery& query,
    std::shared_ptr<const ReadyIndex>* missed) {
  if (stores_.indexes.memory == nullptr || stores_.entries.memory == nullptr)
    return std::nullopt;
  const auto index_record = stores_.indexes.memory->Get(compile_key);
  if (!index_record.ok() || (*index_record)->size() > kMostIndexBytesAtOnce)
    return std::nullopt;
  const auto index = Ready(compile_key, *index_record);
  if (!index.ok() || (*index)->steps > kMostIndexStepsAtOnce ||
      !IsOf(**index, query.cache_namespace))
    return std::nullopt;
  for (const ReadyIndex::Row& row : (*index)->entries) {
    if (!Serves(row, query)) continue;
    const Digest& id = row.id;
    const auto record = stores_.entries.memory->Get(id);
    if (!record.ok()) return std::nullopt;
    const auto entry = ready_entries_.Get(id, *record, [&](const Blob& bytes) {
      return ReadReadyEntry(*bytes, compile_key, id);
    });
    if (!entry.ok() ||
        (!(*entry)->signer.empty() &&
         !stores_.keys.trusted()
              ->CheckCounts((*entry)->signer, query.cache_namespace)
              .ok()))
      return std::nullopt;
    stores_.ledger.Touch(id);
    return ReadyHit{
        *record, absl::string_view(**record).substr((*entry)->artifact_begin,
                                                    (*entry)->artifact_bytes)};
  }
  if (missed != nullptr) *missed = *index;
  return std::nullopt;
}

CacheAnswer ArtifactCache::Lookup(const Digest& compile_key,
                                  const EntryQuery& query,
                                  const ReadyIndex* missed) {
  const auto record = stores_.indexes.serve.Get(compile_key);
  const auto index =
      record.ok() ? Ready(compile_key, *record) : record.status();
  CacheAnswer answer;
  if (!index.ok()) {
    if (absl::IsNotFound(index.status())) return answer;
    if (IsBroken(index.status())) {
      answer.outcome = CacheOutcome::kBroken;
      IgnoreBecause(stores_.indexes.serve.Delete(compile_key),
                    "the next lookup finds it broken again");
    } else {
      LogWarning("cache.read_failed", {{"key", compile_key.ShortHex()},
                                       {"error", index.status().ToString()}});
    }
    return answer;
  }
  if (!IsOf(**index, query.cache_namespace)) return answer;
  answer.outcome = CacheOutcome::kGuardMiss;
  if (index->get() == missed) return answer;
  for (const ReadyIndex::Row& row : (*index)->entries) {
    ++answer.tried;
    if (!Serves(row, query)) continue;
    const Digest& id = row.id;
    absl::StatusOr<wire::CacheEntry> entry = ReadToServe(compile_key, id);
    // What lies in memory was verified when it came there.
    if (entry.ok()) {
      const absl::Status counts = CheckSigner(*entry, *stores_.keys.trusted());
      if (!counts.ok()) {
        if (stores_.on_refused != nullptr) stores_.on_refused(id, counts);
        entry = counts;
      }
    }
    if (entry.ok()) {
      stores_.ledger.Touch(id);
      answer.outcome = CacheOutcome::kHit;
      answer.artifact = std::move(*entry->mutable_artifact());
      answer.entry_id = id;
      return answer;
    }
    // Evicted, or unsound: the index says what is there.
    if (IsBroken(entry.status())) {
      answer.outcome = CacheOutcome::kBroken;
      IgnoreBecause(stores_.entries.serve.Delete(id),
                    "the next lookup finds it broken again");
    } else if (!absl::IsNotFound(entry.status())) {
      LogWarning("cache.read_failed", {{"key", compile_key.ShortHex()},
                                       {"error", entry.status().ToString()}});
      continue;
    }
    IgnoreBecause(indexes_.Drop(compile_key, id),
                  "the next lookup finds it gone again");
  }
  return answer;
}

// The graph's text is for people: a cache without it explains less.
void ArtifactCache::StoreGraph(const NewEntry& entry) {
  const KeyPart* graph = GraphPart(entry.key.parts);
  if (graph == nullptr || entry.graph_text.empty()) return;
  const Digest record = LinesRecord(graph->digest, entry.cache_namespace);
  if (stores_.graphs.Get(record).ok()) return;
  IgnoreBecause(stores_.graphs.Put(record, Pack(entry.graph_text)),
                "the artifact is what matters");
}

absl::Status ArtifactCache::Insert(NewEntry entry) {
  StoreGraph(entry);
  const Digest key = entry.key.digest;
  const Digest id = EntryId(key, entry.guards, entry.tuned);
  const wire::CacheEntry record =
      RecordOf(std::move(entry), id, stores_.ledger.Now());
  const auto payload =
      std::make_shared<const std::string>(DeterministicBytes(record));
  // Made here, by the build that compiles now. What other daemons say, and what was
  // stored before, names no build.
  stores_.ledger.NameLiveBuild(BuildOf(record.key()));
  // First what the index will name: whoever finds it there finds the entry.
  absl::Status stored =
      NoteEntry(record, static_cast<int64_t>(payload->size()));
  if (stored.ok()) stored = stores_.entries.serve.Put(id, *payload);
  if (stored.ok()) stored = Name(record);
  if (stores_.far != nullptr)
    stores_.far->PutEntry(key, record.key().cache_namespace(), record.facts(),
                          payload);
  return stored;
}

void ArtifactCache::NoteGraph(const wire::KeyFacts& key) {
  const std::vector<KeyPart> parts = PartsOf(key);
  const KeyPart* graph = GraphPart(parts);
  const auto digest = Digest::FromBytes(key.compile_key());
  if (graph == nullptr || !digest.has_value()) return;
  IgnoreBecause(
      graph_keys_.Add(graph->digest, Sha256Of(key.cache_namespace()), *digest),
      "people find the key by a walk over all");
}

absl::Status ArtifactCache::Name(const wire::CacheEntry& entry) {
  wire::KeyIndex added;
  *added.mutable_key() = entry.key();
  *added.add_entries() = entry.facts();
  ASSIGN_OR_RETURN(const std::vector<Digest> dropped, indexes_.Add(added));
  for (const Digest& old : dropped) {
    RETURN_IF_ERROR(stores_.entries.serve.Delete(old));
  }
  NoteGraph(entry.key());
  return absl::OkStatus();
}

// Noted before it is stored: what a crash leaves between has a row and no record,
// and the next start sees that.
absl::Status ArtifactCache::NoteEntry(const wire::CacheEntry& entry,
                                      int64_t record_bytes) {
  StoredFacts facts;
  facts.bytes = record_bytes;
  facts.rebuild = absl::Milliseconds(entry.facts().build_ms());
  facts.cache_namespace = entry.key().cache_namespace();
  facts.compile_key =
      Digest::FromBytes(entry.key().compile_key()).value_or(Digest());
  facts.build = BuildOf(entry.key());
  return stores_.ledger.Add(IdOf(entry.facts()), facts);
}

ArtifactCache::FarAnswer ArtifactCache::LookupFar(const Digest& compile_key,
                                                  const EntryQuery& query,
                                                  SteadyTime deadline) {
  FarAnswer far;
  if (stores_.far == nullptr) return far;
  std::optional<FarTier::Entry> found = stores_.far->FindEntry(
      compile_key, query.cache_namespace,
      [&query](const wire::EntryFacts& facts) {
        return Serves(ReadyIndex::Row(facts), query);
      },
      deadline);
  if (!found.has_value()) return far;
  far.answer.outcome = CacheOutcome::kHit;
  far.answer.entry_id = IdOf(found->entry.facts());
  far.answer.artifact = std::move(*found->entry.mutable_artifact());
  far.found = *std::move(found);
  return far;
}

void ArtifactCache::KeepNear(const FarTier::Entry& found) {
  const absl::Status stored = StoreRecord(found.entry, found.record);
  if (stored.ok()) return;
  LogWarning("cache.store_failed", {{"error", stored.ToString()}});
}

absl::Status ArtifactCache::StoreRecord(const wire::CacheEntry& entry,
                                        absl::string_view record) {
  RETURN_IF_ERROR(NoteEntry(entry, static_cast<int64_t>(record.size())));
  RETURN_IF_ERROR(stores_.records->PutRecord(IdOf(entry.facts()), record));
  return Name(entry);
}

absl::Status ArtifactCache::Evict(const Digest& entry_id) {
  const absl::StatusOr<StoredFacts> facts = stores_.ledger.FactsOf(entry_id);
  if (facts.ok()) {
    IgnoreBecause(indexes_.Drop(facts->compile_key, entry_id),
                  "the next lookup finds it gone");
  }
  return stores_.entries.serve.Delete(entry_id);
}

absl::Status ArtifactCache::Note(const Digest& entry_id) {
  ASSIGN_OR_RETURN(const Blob blob, stores_.entries.inspect.Get(entry_id));
  const auto entry = ReadEntryRecord(entry_id, *blob);
  if (!entry.ok()) return stores_.entries.inspect.Delete(entry_id);
  return NoteEntry(*entry, static_cast<int64_t>(blob->size()));
}

absl::Status ArtifactCache::Unname(const Digest& compile_key,
                                   const Digest& entry_id) {
  return indexes_.Drop(compile_key, entry_id);
}

}  // namespace kiln

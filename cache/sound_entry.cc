#include "cache/sound_entry.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/compile_key.h"
#include "cache/entry_facts.h"
#include "cache/entry_id.h"
#include "proto/base/status.h"
#include "proto/base/work_limits.h"

namespace kiln {
namespace {

absl::Status Unsound(absl::string_view subject, const Digest& name,
                     absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat(subject, " ", name.ShortHex(), ": ", what));
}

}  // namespace

absl::Status CheckKeyFacts(const wire::KeyFacts& facts, const Digest& key) {
  if (facts.compile_key() != key.bytes())
    return Unsound("key", key, "the record is another key's");
  const std::vector<KeyPart> parts = PartsOf(facts);
  if (DigestOfParts(parts) != key)
    return Unsound("key", key, "the record's parts are not those of the key");
  const auto is_namespace = [](const KeyPart& part) {
    return part.name == "namespace";
  };
  const auto named = std::find_if(parts.begin(), parts.end(), is_namespace);
  if (named == parts.end() ||
      named->digest != Sha256Of(facts.cache_namespace()) ||
      std::find_if(named + 1, parts.end(), is_namespace) != parts.end()) {
    return Unsound("key", key, "the record is of another namespace");
  }
  return absl::OkStatus();
}

absl::Status CheckConditions(const wire::EntryFacts& facts,
                             const Digest& name) {
  if (AreConditionsFew(facts.guards(), facts.tuned())) return absl::OkStatus();
  return Unsound("entry", name, "the record has more guards than a plan may");
}

absl::StatusOr<wire::CacheEntry> ReadEntryRecord(const Digest& id,
                                                 absl::string_view payload) {
  wire::CacheEntry entry;
  if (!entry.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Unsound("entry", id, "the record is no entry");
  const auto key = Digest::FromBytes(entry.key().compile_key());
  if (!key.has_value()) return Unsound("entry", id, "the record has no key");
  RETURN_IF_ERROR(Annotate(CheckKeyFacts(entry.key(), *key),
                           absl::StrCat("entry ", id.ShortHex())));
  RETURN_IF_ERROR(CheckConditions(entry.facts(), id));
  const std::vector<std::string> tuned(entry.facts().tuned().begin(),
                                       entry.facts().tuned().end());
  if (entry.facts().entry_id() != id.bytes() ||
      EntryId(*key, entry.facts().guards(), tuned) != id) {
    return Unsound("entry", id, "the record is another entry's");
  }
  return entry;
}

absl::StatusOr<wire::CacheEntry> ReadEntryRecord(const Digest& key,
                                                 const Digest& id,
                                                 absl::string_view payload) {
  ASSIGN_OR_RETURN(wire::CacheEntry entry, ReadEntryRecord(id, payload));
  if (entry.key().compile_key() != key.bytes()) {
    return Unsound(
        "entry", id,
        absl::StrCat("found one of another key than ", key.ShortHex()));
  }
  return entry;
}

}  // namespace kiln

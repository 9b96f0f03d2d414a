#include "cache/key_index.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/sound_entry.h"
#include "proto/base/assemble.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

absl::StatusOr<wire::KeyIndex> ReadFrom(const BlobStore& store,
                                        const Digest& key) {
  ASSIGN_OR_RETURN(const Blob blob, store.Get(key));
  ASSIGN_OR_RETURN(const auto index, ReadIndexRecord(key, *blob));
  return *index;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const wire::KeyIndex>> ReadIndexRecord(
    const Digest& key, const std::string& record) {
  auto index = std::make_shared<wire::KeyIndex>();
  const std::string subject = absl::StrCat("entries of key ", key.ShortHex());
  if (!index->ParseFromString(record)) {
    return MakeError(ErrorReason::kArtifactCorrupt,
                     absl::StrCat(subject, ": the record is no index"));
  }
  RETURN_IF_ERROR(Annotate(CheckKeyFacts(index->key(), key), subject));
  for (const wire::EntryFacts& entry : index->entries())
    RETURN_IF_ERROR(Annotate(CheckConditions(entry, key), subject));
  return index;
}

wire::KeyIndex UnionOf(const wire::KeyIndex& a, const wire::KeyIndex& b,
                       std::vector<Digest>& dropped) {
  wire::KeyIndex merged;
  *merged.mutable_key() = a.key();
  std::set<std::string> ids;
  for (const wire::KeyIndex* index : {&a, &b}) {
    for (const wire::EntryFacts& entry : index->entries()) {
      if (!ids.insert(entry.entry_id()).second) continue;
      if (merged.entries_size() < kMaxEntriesPerKey) {
        *merged.add_entries() = entry;
      } else if (const auto id = Digest::FromBytes(entry.entry_id())) {
        dropped.push_back(*id);
      }
    }
  }
  return merged;
}

absl::StatusOr<wire::KeyIndex> KeyIndexes::Read(const Digest& key) const {
  return ReadFrom(serve_, key);
}

absl::StatusOr<std::vector<Digest>> KeyIndexes::Add(
    const wire::KeyIndex& added) {
  const auto key = Digest::FromBytes(added.key().compile_key());
  if (!key.has_value()) return absl::InternalError("index: of no key");
  RETURN_IF_ERROR(CheckKeyFacts(added.key(), *key));
  const KeyClaims::Claim claim(claims_, *key);
  const absl::StatusOr<wire::KeyIndex> before = ReadFrom(serve_, *key);
  std::vector<Digest> dropped;
  const wire::KeyIndex merged =
      UnionOf(added, before.ok() ? *before : wire::KeyIndex::default_instance(),
              dropped);
  RETURN_IF_ERROR(serve_.Put(*key, DeterministicBytes(merged)));
  return dropped;
}

absl::Status KeyIndexes::Drop(const Digest& key, const Digest& entry_id) {
  const KeyClaims::Claim claim(claims_, key);
  absl::StatusOr<wire::KeyIndex> index = ReadFrom(serve_, key);
  if (absl::IsNotFound(index.status())) return absl::OkStatus();
  if (!index.ok()) return serve_.Delete(key);
  auto& entries = *index->mutable_entries();
  const auto gone = std::remove_if(
      entries.begin(), entries.end(), [&](const wire::EntryFacts& entry) {
        return entry.entry_id() == entry_id.bytes();
      });
  if (gone == entries.end()) return absl::OkStatus();
  entries.erase(gone, entries.end());
  if (entries.empty()) return serve_.Delete(key);
  return serve_.Put(key, DeterministicBytes(*index));
}

absl::Status KeyIndexes::ForEach(
    absl::string_view key_prefix_hex, const std::optional<Digest>& after,
    absl::FunctionRef<absl::Status(const Digest&, const wire::KeyIndex&)> visit)
    const {
  const std::string prefix = absl::AsciiStrToLower(key_prefix_hex);
  constexpr size_t kDigits = 2 * Digest::kBytes;
  if (prefix.size() > kDigits) return absl::OkStatus();
  const std::optional<Digest> first = Digest::FromHex(
      absl::StrCat(prefix, std::string(kDigits - prefix.size(), '0')));
  if (!first.has_value()) return absl::OkStatus();  // no digits: nobody's
  bool is_past = false;
  const absl::Status walked = inspect_.ScanFrom(
      after.has_value() ? std::max(*first, *after) : *first,
      [&](const Digest& key, int64_t) -> absl::Status {
        if (key == after) return absl::OkStatus();
        is_past = !absl::StartsWith(key.Hex(), prefix);
        if (is_past) return absl::CancelledError();
        const absl::StatusOr<wire::KeyIndex> index = ReadFrom(inspect_, key);
        if (index.ok()) return visit(key, *index);
        // Gone meanwhile, or unsound: there is nothing to visit.
        if (absl::IsNotFound(index.status()) ||
            ReasonOf(index.status()) == ErrorReason::kArtifactCorrupt ||
            ReasonOf(index.status()) == ErrorReason::kArtifactUntrusted) {
          return absl::OkStatus();
        }
        return index.status();
      });
  return is_past ? absl::OkStatus() : walked;
}

}  // namespace kiln

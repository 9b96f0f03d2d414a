#include "cache/near_records.h"

#include <cstdint>
#include <utility>

#include "cache/entry_format.h"
#include "cache/far/far_record.h"
#include "cache/sound_entry.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Of a read that met a record which is not sound, and is gone now.
absl::Status GoneIfBroken(const absl::Status& status) {
  if (absl::IsDataLoss(status) || absl::IsPermissionDenied(status))
    return absl::NotFoundError("not stored");
  return status;
}

}  // namespace

absl::StatusOr<NearRecords::KeyHints> NearRecords::Hints(
    const Digest& key) const {
  const auto index = stores_.artifacts.ReadIndex(key);
  if (!index.ok()) return GoneIfBroken(index.status());
  KeyHints found;
  found.cache_namespace = index->key().cache_namespace();
  for (const wire::EntryFacts& facts : index->entries()) {
    std::string hint = HintOf(facts);
    if (hint.size() <= kMaxHintBytes)
      found.hints.push_back({facts.entry_id(), std::move(hint)});
  }
  return found;
}

absl::StatusOr<NearRecords::Record> NearRecords::Get(
    const FarName& name) const {
  const bool is_unit = !name.entry.has_value();
  const Digest& id = is_unit ? name.key : *name.entry;
  auto read = (is_unit ? stores_.units : stores_.entries).GetRecord(id);
  if (!read.ok()) return GoneIfBroken(read.status());
  Record found;
  if (!is_unit) {
    const auto entry = ReadEntryRecord(name.key, id, read->payload);
    if (!entry.ok()) return absl::NotFoundError("not stored under this key");
    found.cache_namespace = entry->key().cache_namespace();
  }
  stores_.ledger.Touch(id);
  const auto own = stores_.keys.SignerOf("");
  const auto signer = stores_.keys.SignerOf(found.cache_namespace);
  const bool sealed_here =
      SignerOfRecord(*read->record) == own->public_key().key_id();
  if (sealed_here && signer->public_key() != own->public_key()) {
    found.bytes = SealRecord(id, read->payload, *signer);
  } else {
    found.bytes = *read->record;
  }
  return found;
}

absl::StatusOr<NearRecords::Offer> NearRecords::Open(const FarName& name,
                                                     std::string record) const {
  const auto trusted = stores_.keys.trusted();
  Offer offer;
  offer.name = name;
  if (name.entry.has_value()) {
    ASSIGN_OR_RETURN(offer.entry,
                     OpenFarEntry(name.key, *name.entry, record, *trusted));
  } else {
    RETURN_IF_ERROR(CheckFarUnit(name.key, record, *trusted));
  }
  offer.bytes = std::move(record);
  return offer;
}

absl::Status NearRecords::Keep(const Offer& offer) {
  if (offer.name.entry.has_value()) {
    if (stores_.entries.Get(*offer.name.entry).ok()) return absl::OkStatus();
    return stores_.artifacts.StoreRecord(offer.entry, offer.bytes);
  }
  const Digest& key = offer.name.key;
  if (stores_.units.Get(key).ok()) return absl::OkStatus();
  RETURN_IF_ERROR(
      stores_.unit_cache.Note(key, static_cast<int64_t>(offer.bytes.size())));
  return stores_.units.PutRecord(key, offer.bytes);
}

absl::Status NearRecords::Erase(const FarName& name) {
  if (!name.entry.has_value()) return stores_.unit_cache.Evict(name.key);
  // Out of the index first: whoever finds it there finds the entry.
  RETURN_IF_ERROR(stores_.artifacts.Unname(name.key, *name.entry));
  return stores_.artifacts.Evict(*name.entry);
}

}  // namespace kiln

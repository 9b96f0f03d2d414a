#include "cache/far/far_record.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "cache/entry_format.h"
#include "cache/entry_id.h"
#include "cache/sound_entry.h"
#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kSumBytes = 8;

std::string SumOf(absl::string_view bytes) {
  const uint64_t sum = Xxh3_64(bytes);
  std::string text;
  for (int i = 0; i < kSumBytes; ++i) text += static_cast<char>(sum >> (8 * i));
  return text;
}

absl::Status Refuse(ErrorReason reason, absl::string_view subject,
                    const Digest& key, absl::string_view what) {
  return MakeError(reason, absl::StrCat("far ", subject, " of key ",
                                        key.ShortHex(), ": ", what));
}

}  // namespace

std::string HintOf(const wire::EntryFacts& facts) {
  const std::string bytes = DeterministicBytes(facts);
  return absl::StrCat(SumOf(bytes), bytes);
}

absl::StatusOr<wire::EntryFacts> ReadHint(const Digest& key,
                                          const FarHint& hint) {
  const absl::string_view text = hint.hint;
  wire::EntryFacts facts;
  if (text.size() < kSumBytes || text.size() > kMaxHintBytes ||
      SumOf(text.substr(kSumBytes)) != text.substr(0, kSumBytes) ||
      !facts.ParseFromArray(text.data() + kSumBytes,
                            static_cast<int>(text.size()) - kSumBytes)) {
    return Refuse(ErrorReason::kArtifactCorrupt, "hint", key,
                  "a wrong checksum, or no hint");
  }
  const std::vector<std::string> tuned(facts.tuned().begin(),
                                       facts.tuned().end());
  if (facts.entry_id() != hint.id ||
      EntryId(key, facts.guards(), tuned).bytes() != hint.id) {
    return Refuse(ErrorReason::kArtifactCorrupt, "hint", key,
                  "it is another entry's");
  }
  return facts;
}

absl::StatusOr<wire::CacheEntry> OpenFarEntry(const Digest& key,
                                              const Digest& id,
                                              absl::string_view record,
                                              const TrustedKeys& trusted) {
  ASSIGN_OR_RETURN(const std::string payload, OpenRecord(id, record, trusted));
  auto read = ReadEntryRecord(key, id, payload);
  RETURN_IF_ERROR(Annotate(read.status(), "far"));
  wire::CacheEntry& entry = *read;
  wire::ArtifactEnvelope envelope;
  if (!envelope.ParseFromString(entry.artifact().envelope())) {
    return Refuse(ErrorReason::kArtifactCorrupt, "entry", key,
                  "without an envelope");
  }
  if (envelope.compile_key() != key.bytes() ||
      envelope.entry_id() != id.bytes() ||
      envelope.cache_namespace() != entry.key().cache_namespace()) {
    return Refuse(ErrorReason::kArtifactCorrupt, "entry", key,
                  "its envelope is of another key, entry or namespace");
  }
  const std::string& cache_namespace = envelope.cache_namespace();
  for (const absl::string_view signer :
       {SignerOfRecord(record), absl::string_view(envelope.signer())}) {
    RETURN_IF_ERROR(
        Annotate(trusted.CheckCounts(signer, cache_namespace),
                 absl::StrCat("far entry of key ", key.ShortHex())));
  }
  return read;
}

absl::Status CheckFarUnit(const Digest& key, absl::string_view record,
                          const TrustedKeys& trusted) {
  RETURN_IF_ERROR(OpenRecord(key, record, trusted).status());
  return trusted.CheckCounts(SignerOfRecord(record), "");
}

}  // namespace kiln

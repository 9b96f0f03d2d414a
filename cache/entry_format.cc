#include "cache/entry_format.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr uint32_t kMagic = 0x524e4c4b;
constexpr size_t kSumAt = 16;  // xxh3 stands there, 8 bytes
constexpr size_t kKeyAt = 24;  // the key, 32 bytes
constexpr size_t kPayloadAt = 56;
constexpr size_t kTrailerBytes = kSignatureBytes + kKeyIdBytes;

std::string LittleEndian(uint64_t number, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i));
  return out;
}

uint64_t Number(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i]))
              << (8 * i);
  }
  return number;
}

// Two sums made one: of the header without its own field, and of the payload.
uint64_t Checksum(absl::string_view before_sum, absl::string_view key,
                  absl::string_view payload) {
  return Xxh3_64(
      absl::StrCat(before_sum, key, LittleEndian(Xxh3_64(payload), 8)));
}

absl::Status Corrupt(const Digest& key, absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("record ", key.ShortHex(), ": ", what));
}

}  // namespace

std::string SealRecord(const Digest& key, absl::string_view payload,
                       const SigningKey& signer) {
  const std::string head =
      absl::StrCat(LittleEndian(kMagic, 4), LittleEndian(kRecordVersion, 4),
                   LittleEndian(payload.size(), 8));
  std::string record =
      absl::StrCat(head, LittleEndian(Checksum(head, key.bytes(), payload), 8),
                   key.bytes(), payload);
  const std::string signature = signer.Sign(kRecordSigningPrefix, record);
  absl::StrAppend(&record, signature, signer.public_key().key_id());
  return record;
}

absl::StatusOr<std::string> OpenRecord(const Digest& key,
                                       absl::string_view record,
                                       const TrustedKeys& trusted) {
  if (record.size() < kPayloadAt + kTrailerBytes) {
    return Corrupt(key, absl::StrCat(record.size(), " bytes, at least ",
                                     kPayloadAt + kTrailerBytes));
  }
  const absl::string_view head = record.substr(0, kSumAt);
  if (Number(head.substr(0, 4)) != kMagic) return Corrupt(key, "magic");
  const uint64_t due = record.size() - kPayloadAt - kTrailerBytes;
  if (Number(head.substr(8, 8)) != due) {
    return Corrupt(key, absl::StrCat("length says ", Number(head.substr(8, 8)),
                                     ", the record holds ", due));
  }
  const absl::string_view stored_key = record.substr(kKeyAt, Digest::kBytes);
  const absl::string_view payload = record.substr(kPayloadAt, due);
  if (Number(record.substr(kSumAt, 8)) != Checksum(head, stored_key, payload)) {
    return Corrupt(key, "checksum");
  }
  if (stored_key != key.bytes()) {
    return Corrupt(key, "it was stored under another key");
  }
  const uint64_t version = Number(head.substr(4, 4));
  if (version != kRecordVersion) {
    return MakeError(
        ErrorReason::kArtifactIncompatible,
        absl::StrCat("record ", key.ShortHex(), ": version ", version,
                     ", this build reads ", kRecordVersion));
  }
  const absl::string_view signed_part = record.substr(0, kPayloadAt + due);
  const absl::string_view signature =
      record.substr(kPayloadAt + due, kSignatureBytes);
  const std::string subject = absl::StrCat("record ", key.ShortHex());
  const absl::StatusOr<PublicKey> signer = trusted.Find(SignerOfRecord(record));
  RETURN_IF_ERROR(Annotate(signer.status(), subject));
  RETURN_IF_ERROR(Annotate(
      signer->Verify(kRecordSigningPrefix, signed_part, signature), subject));
  return std::string(payload);
}

absl::string_view SignerOfRecord(absl::string_view record) {
  return record.substr(record.size() - kKeyIdBytes);
}

}  // namespace kiln

#include "cache/ready_entry.h"

#include "absl/strings/str_cat.h"
#include "cache/sound_entry.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"
#include "proto/cache_entry.pb.h"

namespace kiln {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The bytes of the record's SignedArtifact. Empty where there is not exactly one.
absl::string_view ArtifactIn(absl::string_view record) {
  constexpr uint32_t kDue = GOOGLE_PROTOBUF_WIRE_FORMAT_MAKE_TAG(
      wire::CacheEntry::kArtifactFieldNumber,
      WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  CodedInputStream in(reinterpret_cast<const uint8_t*>(record.data()),
                      static_cast<int>(record.size()));
  absl::string_view found;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != kDue) {
      if (!WireFormatLite::SkipField(&in, tag)) return {};
      continue;
    }
    uint32_t size = 0;
    if (!found.empty() || !in.ReadVarint32(&size)) return {};
    const int begin = in.CurrentPosition();
    if (!in.Skip(static_cast<int>(size))) return {};
    found = record.substr(begin, size);
  }
  return found;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ReadyEntry>> ReadReadyEntry(
    const std::string& record, const Digest& key, const Digest& id) {
  ASSIGN_OR_RETURN(const wire::CacheEntry entry,
                   ReadEntryRecord(key, id, record));
  return ReadyOf(record, entry);
}

absl::StatusOr<std::shared_ptr<const ReadyEntry>> ReadyOf(
    const std::string& record, const wire::CacheEntry& entry) {
  const absl::string_view artifact = ArtifactIn(record);
  wire::ArtifactEnvelope envelope;
  if (artifact.empty() ||
      !envelope.ParseFromString(entry.artifact().envelope())) {
    return MakeError(ErrorReason::kArtifactCorrupt,
                     "entry: without one artifact and its envelope");
  }
  auto ready = std::make_shared<ReadyEntry>();
  if (!entry.artifact().signature().empty()) ready->signer = envelope.signer();
  ready->artifact_begin = artifact.data() - record.data();
  ready->artifact_bytes = artifact.size();
  return ready;
}

}  // namespace kiln

#include "server/key_file.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "proto/base/digest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "server/access/private_file.h"

namespace kiln {
namespace {

// Enough for all keys that there may be; a row has 400 bytes at most.
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;
constexpr char kName[] = "keys";
constexpr absl::string_view kMark = "# Kiln's list of signing keys: ";

absl::Status Refuse(const std::string& path, absl::string_view found) {
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat(path, ": ", found,
                   ". All revocations are kept in this file: restore it from a "
                   "backup. Without a backup delete it, start the daemon, and "
                   "revoke again every key that was revoked (`compilectl keys "
                   "revoke`)"));
}

std::string CommentOf(int keys, absl::string_view text) {
  return absl::StrCat(kMark, keys, ", xxh3 ",
                      absl::Hex(Xxh3_64(text), absl::kZeroPad16), "\n");
}

bool IsSound(const wire::KeyFile& keys) {
  for (const wire::DaemonKey& row : keys.keys()) {
    const size_t bytes = row.public_key().size();
    if (row.key_id().size() != kKeyIdBytes) return false;
    if (bytes != 0 && bytes != PublicKey::kBytes) return false;
    // A key without its bytes can only be one that was revoked.
    if (bytes == 0 && row.revoked_unix_ms() == 0) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<StoredKeys> ReadKeyFile(const OpenFolder& folder) {
  const std::string path = folder.PathOf(kName);
  const absl::StatusOr<std::string> text =
      ReadPrivateFile(folder, kName, kMaxFileBytes);
  StoredKeys stored;
  if (absl::IsNotFound(text.status())) return stored;
  RETURN_IF_ERROR(text.status());
  stored.exists = true;
  if (text->empty()) return Refuse(path, "the file is empty");
  if (!google::protobuf::TextFormat::ParseFromString(*text, &stored.keys) ||
      !IsSound(stored.keys)) {
    return Refuse(path, "not a list of keys, or a list that was cut short");
  }
  absl::string_view rows = *text;
  const int count = stored.keys.keys_size();
  if (!absl::ConsumePrefix(&rows, kMark)) {
    // An earlier build's list, which had a row or was not written.
    if (count > 0) return stored;
    return Refuse(path, "there is no key in it");
  }
  rows.remove_prefix(std::min(rows.size(), rows.find('\n')));
  absl::ConsumePrefix(&rows, "\n");
  if (!absl::StartsWith(*text, CommentOf(count, rows))) {
    return Refuse(path,
                  absl::StrCat("found ", count,
                               " keys, which are not those that its first "
                               "line promises; the file was cut short "
                               "or changed"));
  }
  stored.has_checksum = true;
  return stored;
}

absl::Status WriteKeyFile(const OpenFolder& folder, const wire::KeyFile& keys) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(keys, &text);
  return ReplacePrivateFile(
      folder, kName, absl::StrCat(CommentOf(keys.keys_size(), text), text));
}

}  // namespace kiln

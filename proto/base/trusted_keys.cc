#include "proto/base/trusted_keys.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Untrusted(absl::string_view key_id, absl::string_view why) {
  return MakeError(ErrorReason::kArtifactUntrusted,
                   absl::StrCat("signed by the key with the id ",
                                absl::BytesToHexString(key_id), ", ", why));
}

}  // namespace

TrustedKeys::TrustedKeys(std::initializer_list<PublicKey> keys)
    : TrustedKeys(std::vector<PublicKey>(keys)) {}

TrustedKeys::TrustedKeys(const std::vector<PublicKey>& keys) {
  for (const PublicKey& key : keys) Add(key);
}

void TrustedKeys::Add(const PublicKey& key, absl::string_view cache_namespace) {
  if (revoked_.contains(key.key_id())) return;
  Row& row = rows_.try_emplace(key.key_id(), Row{key, {}}).first->second;
  row.namespaces.emplace(cache_namespace);
}

void TrustedKeys::Revoke(absl::string_view key_id) {
  revoked_.emplace(key_id);
  const auto found = rows_.find(key_id);
  if (found != rows_.end()) rows_.erase(found);
}

void TrustedKeys::Merge(const TrustedKeys& other) {
  for (const auto& [id, row] : other.rows_) {
    for (const std::string& name : row.namespaces) Add(row.key, name);
  }
  for (const std::string& id : other.revoked_) revoked_.insert(id);
  for (const std::string& id : revoked_) rows_.erase(id);
}

absl::StatusOr<PublicKey> TrustedKeys::Find(absl::string_view key_id) const {
  if (revoked_.contains(key_id)) {
    return Untrusted(key_id, "which was revoked");
  }
  const auto found = rows_.find(key_id);
  if (found != rows_.end()) return found->second.key;
  return Untrusted(key_id, absl::StrCat("which is not one of the ",
                                        rows_.size(), " trusted keys"));
}

absl::Status TrustedKeys::CheckCounts(absl::string_view key_id,
                                      absl::string_view cache_namespace) const {
  RETURN_IF_ERROR(Find(key_id).status());
  const auto& namespaces = rows_.find(key_id)->second.namespaces;
  if (namespaces.contains("") || namespaces.contains(cache_namespace))
    return absl::OkStatus();
  return Untrusted(
      key_id, absl::StrCat("which does not count in namespace ",
                           cache_namespace.empty() ? "*" : cache_namespace));
}

std::vector<TrustedKeys::Row> TrustedKeys::rows() const {
  std::vector<Row> rows;
  for (const auto& [id, row] : rows_) rows.push_back(row);
  return rows;
}

}  // namespace kiln

#ifndef KILN_PROTO_BASE_TRUSTED_KEYS_H_
#define KILN_PROTO_BASE_TRUSTED_KEYS_H_

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/signature.h"

namespace kiln {

// Whose signatures count, and in which namespaces. A value.
//
// A key is named by its id (PublicKey::key_id). A key that was revoked never
// counts again, whoever adds it.
class TrustedKeys {
 public:
  TrustedKeys() = default;
  // Implicit: a list of keys means these, in every namespace.
  TrustedKeys(std::initializer_list<PublicKey> keys);
  TrustedKeys(const std::vector<PublicKey>& keys);

  // `cache_namespace` empty: every one. A key may be added for several.
  void Add(const PublicKey& key, absl::string_view cache_namespace = "");
  void Revoke(absl::string_view key_id);
  // Adds all keys and all revocations of `other`.
  void Merge(const TrustedKeys& other);

  // The key with this id, wherever it counts. ARTIFACT_UNTRUSTED when it is
  // revoked, or not known.
  absl::StatusOr<PublicKey> Find(absl::string_view key_id) const;
  // Find's error, or ARTIFACT_UNTRUSTED when the key does not count in the
  // namespace. An empty one stands for what all namespaces share.
  absl::Status CheckCounts(absl::string_view key_id,
                           absl::string_view cache_namespace) const;

  struct Row {
    PublicKey key;
    std::set<std::string, std::less<>> namespaces;  // "": every one
  };
  // By key id, without the revoked ones.
  std::vector<Row> rows() const;
  const std::set<std::string, std::less<>>& revoked() const { return revoked_; }

 private:
  std::map<std::string, Row, std::less<>> rows_;  // by key id
  std::set<std::string, std::less<>> revoked_;    // key ids
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_TRUSTED_KEYS_H_

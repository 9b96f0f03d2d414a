#include "server/key_admin.h"

#include <string>
#include <utility>

#include "proto/base/status.h"

namespace kiln {

wire::ListKeysReply ListKeys(const KeyStore& keys) {
  wire::ListKeysReply reply;
  for (KeyStore::Row& row : keys.List()) {
    wire::ListedKey& listed = *reply.add_keys();
    *listed.mutable_key() = std::move(row.key);
    listed.set_signs(row.signs);
    listed.set_foreign(row.foreign);
  }
  return reply;
}

absl::StatusOr<wire::RotateKeyReply> RotateKey(
    KeyStore& keys, const wire::RotateKeyRequest& request) {
  ASSIGN_OR_RETURN(const PublicKey made,
                   keys.Rotate(request.cache_namespace()));
  wire::RotateKeyReply reply;
  reply.set_public_key(made.bytes());
  return reply;
}

absl::StatusOr<wire::RevokeKeyReply> RevokeKey(
    KeyStore& keys, const wire::RevokeKeyRequest& request) {
  wire::RevokeKeyReply reply;
  ASSIGN_OR_RETURN(*reply.mutable_key_id(),
                   keys.Revoke(request.key_hex(), request.unknown()));
  return reply;
}

}  // namespace kiln

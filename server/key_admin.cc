#include "server/key_admin.h"

#include <iterator>
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
  ASSIGN_OR_RETURN(KeyStore::Revoked revoked,
                   keys.Revoke(request.key_hex(), request.unknown()));
  wire::RevokeKeyReply reply;
  reply.set_key_id(std::move(revoked.id));
  reply.mutable_signs_now()->Add(
      std::make_move_iterator(revoked.signs_now.begin()),
      std::make_move_iterator(revoked.signs_now.end()));
  reply.set_needs_scrub(revoked.signed_indexes);
  return reply;
}

}  // namespace kiln

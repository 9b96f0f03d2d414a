#ifndef KILN_SERVER_KEY_ADMIN_H_
#define KILN_SERVER_KEY_ADMIN_H_

#include "absl/status/statusor.h"
#include "proto/admin_service.pb.h"
#include "server/key_store.h"

namespace kiln {

// What people ask of the daemon's keys, as proto/admin_service.proto says.

wire::ListKeysReply ListKeys(const KeyStore& keys);

absl::StatusOr<wire::RotateKeyReply> RotateKey(
    KeyStore& keys, const wire::RotateKeyRequest& request);

absl::StatusOr<wire::RevokeKeyReply> RevokeKey(
    KeyStore& keys, const wire::RevokeKeyRequest& request);

}  // namespace kiln

#endif  // KILN_SERVER_KEY_ADMIN_H_

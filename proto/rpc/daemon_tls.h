#ifndef KILN_PROTO_RPC_DAEMON_TLS_H_
#define KILN_PROTO_RPC_DAEMON_TLS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace kiln {

// How a caller and a daemon prove themselves to each other over TCP. PEM files,
// read again while they are in use: what is replaced holds for new connections.
struct DaemonTls {
  // Who signs daemons' certificates. Empty: no TLS.
  std::string ca;
  // The caller's own certificate and its key; both or none.
  std::string certificate;
  std::string key;
  // A file whose one line is a bearer token, shown with each call. It is read
  // again when it changes. As the key it is for its owner and group alone.
  std::string token_file;
};

// Credentials for a channel to `tcp` ("host:port").
//
// BAD_OPTION, naming the address or the file: no CA for an address beyond this
// machine, a certificate or token without a CA, one of certificate and key, a
// file that cannot be read or has no PEM or token of its kind in it, a key or token
// that everybody may read or others may write.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(
    const std::string& tcp, const DaemonTls& tls);

}  // namespace kiln

#endif  // KILN_PROTO_RPC_DAEMON_TLS_H_

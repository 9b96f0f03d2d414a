#ifndef KILN_SERVER_TLS_FILES_H_
#define KILN_SERVER_TLS_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/begun_calls.h"

namespace kiln {

// What the network door proves itself by, and who may prove themselves to it.
// PEM files.
struct TlsFiles {
  std::string certificate;  // the daemon's chain, its own certificate first
  std::string key;          // of that certificate; its owner's alone
  // Who signs callers' certificates. Empty: callers show tokens.
  std::string client_ca;
  // How often the files are read again.
  absl::Duration reread = absl::Seconds(5);
};

// BAD_OPTION, naming the file: one that cannot be read or has no PEM of its kind,
// a key that is not the certificate's, or that others may read.
absl::Status CheckTlsFiles(const TlsFiles& files);

// Credentials of files that CheckTlsFiles took; they outlive their server. Callers'
// certificates are asked for where there is a client_ca, and NOT checked against it:
// that is the gatekeeper's. The files are read again when somebody connects, `reread`
// after the last time: a new pair serves new connections, those there are live on.
// Files that are not good, or not a pair, as while they are replaced one after the
// other, are told to the log once (`tls.not_taken`), and what was there before serves. So is
// that the certificate has expired (`tls.expired`).
//
// Calls are counted in `begun`, which outlives the server: those beyond its limits are
// refused, UNAVAILABLE, when their headers are read. Null: none are.
std::shared_ptr<grpc::ServerCredentials> ServerTls(const TlsFiles& files,
                                                   BegunCalls* begun = nullptr);

// The number in BegunCalls of a connection that these credentials made.
uint64_t TlsConnection(const grpc::AuthContext& peer);

}  // namespace kiln

#endif  // KILN_SERVER_TLS_FILES_H_

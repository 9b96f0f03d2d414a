#ifndef KILN_CACHE_FAR_FAR_STREAM_H_
#define KILN_CACHE_FAR_FAR_STREAM_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cache/far/far_socket.h"
#include "proto/base/steady_time.h"

namespace kiln {

// How a server is known over TLS. PEM files, read again for each connection, so
// that a replaced one counts from the next connection on.
struct FarTlsFiles {
  std::string ca;           // who signs servers' certificates. Empty: no TLS
  std::string certificate;  // shown to the server; empty: none
  std::string key;          // of that certificate
};

// One TCP connection, plain or over TLS, whose calls end by their deadlines. The
// socket does not block; waits are polls. After an error it is of no use. One
// thread at a time. The process ignores SIGPIPE: a peer that has gone is an error.
class FarStream {
 public:
  // Connects and, with TLS, checks the server's certificate: signed by `tls.ca`,
  // for the name or address `host`.
  //
  // Errors, here and below:
  //   UNAVAILABLE STORAGE           refused, reset, unreachable; TLS files that
  //                                 cannot be read
  //   DEADLINE_EXCEEDED
  //   PERMISSION_DENIED PERMISSION  a certificate that is not trusted
  static absl::StatusOr<std::unique_ptr<FarStream>> Connect(
      const std::string& host, absl::Span<const SocketAddress> addresses,
      const FarTlsFiles& tls, SteadyTime deadline);

  FarStream(const FarStream&) = delete;
  FarStream& operator=(const FarStream&) = delete;
  virtual ~FarStream() = default;

  // All of `bytes`.
  virtual absl::Status Write(absl::string_view bytes, SteadyTime deadline) = 0;
  // What is there, at least one byte.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> into,
                                      SteadyTime deadline) = 0;

 protected:
  FarStream() = default;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_STREAM_H_

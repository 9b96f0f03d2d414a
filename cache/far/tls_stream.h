#ifndef KILN_CACHE_FAR_TLS_STREAM_H_
#define KILN_CACHE_FAR_TLS_STREAM_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/far/far_socket.h"
#include "cache/far/far_stream.h"
#include "proto/base/steady_time.h"

namespace kiln {

// TLS (OpenSSL, 1.2 and later) over a connected socket. Errors as
// FarStream::Connect.
absl::StatusOr<std::unique_ptr<FarStream>> ShakeHands(FarSocket socket,
                                                      const std::string& host,
                                                      const FarTlsFiles& files,
                                                      SteadyTime deadline);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_TLS_STREAM_H_

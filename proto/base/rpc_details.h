#ifndef KILN_PROTO_BASE_RPC_DETAILS_H_
#define KILN_PROTO_BASE_RPC_DETAILS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln {

// What a failed gRPC call tells beside its code and message, in the format of
// google.rpc, which any client's library reads: when to try again (RetryInfo), and
// the nodes that are refused (kiln.wire.Refusals).

// The header in which a caller tells how many bytes of refusals it takes. gRPC's
// libraries take 8 KiB of headers and trailers unless told otherwise, and end a
// call that has more without its status.
inline constexpr char kDetailBytesHeader[] = "kiln-detail-bytes";
// For a caller that does not tell.
inline constexpr size_t kDetailBytesByDefault = 2048;

// For grpc::Status's error_details: the refusals of `status`, up to so many bytes,
// and the delay; "" when there are neither.
std::string RpcDetailsOf(const absl::Status& status,
                         std::optional<absl::Duration> retry_delay,
                         size_t most_refusal_bytes);

// The delay that such details name, at most an hour; empty: they name none.
std::optional<absl::Duration> RetryDelayIn(absl::string_view details);

// `status` with the refusals of such details.
absl::Status WithRefusalsIn(absl::string_view details, absl::Status status);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_RPC_DETAILS_H_

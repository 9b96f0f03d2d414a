#include "proto/base/rpc_details.h"

#include <algorithm>
#include <utility>

#include "proto/base/refusal.h"
#include "proto/rpc_details.pb.h"

namespace kiln {
namespace {

constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kRefusals[] = "type.googleapis.com/kiln.wire.Refusals";
constexpr absl::Duration kLongest = absl::Hours(1);

void AddDetail(const char* url, std::string value, wire::RpcStatus& rpc) {
  wire::RpcDetail& detail = *rpc.add_details();
  detail.set_type_url(url);
  detail.set_value(std::move(value));
}

wire::RpcStatus Parsed(absl::string_view details) {
  wire::RpcStatus rpc;
  if (!rpc.ParseFromArray(details.data(), static_cast<int>(details.size())))
    rpc.Clear();
  return rpc;
}

}  // namespace

std::string RpcDetailsOf(const absl::Status& status,
                         std::optional<absl::Duration> retry_delay,
                         size_t most_refusal_bytes) {
  wire::RpcStatus rpc;
  if (retry_delay.has_value()) {
    wire::RetryInfo info;
    info.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(*retry_delay));
    info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(
        absl::ToInt64Nanoseconds(*retry_delay % absl::Seconds(1))));
    AddDetail(kRetryInfo, info.SerializeAsString(), rpc);
  }
  std::string refusals = RefusalBytesOf(status, most_refusal_bytes);
  if (!refusals.empty()) AddDetail(kRefusals, std::move(refusals), rpc);
  if (rpc.details_size() == 0) return "";
  rpc.set_code(static_cast<int32_t>(status.code()));
  rpc.set_message(std::string(status.message()));
  return rpc.SerializeAsString();
}

std::optional<absl::Duration> RetryDelayIn(absl::string_view details) {
  const wire::RpcStatus rpc = Parsed(details);
  for (const wire::RpcDetail& detail : rpc.details()) {
    wire::RetryInfo info;
    if (detail.type_url() != kRetryInfo ||
        !info.ParseFromString(detail.value()))
      continue;
    const absl::Duration delay = absl::Seconds(info.retry_delay().seconds()) +
                                 absl::Nanoseconds(info.retry_delay().nanos());
    return std::clamp(delay, absl::ZeroDuration(), kLongest);
  }
  return std::nullopt;
}

absl::Status WithRefusalsIn(absl::string_view details, absl::Status status) {
  const wire::RpcStatus rpc = Parsed(details);
  for (const wire::RpcDetail& detail : rpc.details()) {
    if (detail.type_url() == kRefusals)
      return WithRefusalBytes(std::move(status), detail.value());
  }
  return status;
}

}  // namespace kiln

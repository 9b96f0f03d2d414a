#include "proto/base/work_error.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/refusal.h"
#include "proto/base/status.h"

namespace kiln {

wire::WorkError WorkErrorOf(const absl::Status& status) {
  wire::WorkError error;
  if (const auto reason = ReasonOf(status); reason.has_value()) {
    error.set_reason(std::string(ReasonName(*reason)));
  }
  error.set_code(static_cast<uint32_t>(status.code()));
  error.set_message(std::string(status.message()));
  if (const std::string refusals = RefusalBytesOf(status); !refusals.empty()) {
    error.mutable_refusals()->ParseFromString(refusals);
  }
  return error;
}

namespace {

absl::Status PlainStatusOf(const wire::WorkError& error) {
  const auto reason = ReasonFromName(error.reason());
  if (reason.has_value()) return MakeError(*reason, error.message());
  constexpr auto kLast =
      static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  if (error.code() == 0 || error.code() > kLast) {
    return absl::InternalError(absl::StrCat("worker: found code ", error.code(),
                                            " in an error, expected 1 to ",
                                            kLast, ": ", error.message()));
  }
  return absl::Status(static_cast<absl::StatusCode>(error.code()),
                      error.message());
}

}  // namespace

absl::Status StatusOf(const wire::WorkError& error) {
  return WithRefusalBytes(PlainStatusOf(error),
                          error.refusals().SerializeAsString());
}

}  // namespace kiln

#ifndef KILN_PROTO_JAIL_JAIL_REPORT_H_
#define KILN_PROTO_JAIL_JAIL_REPORT_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/jail/jail_spec.h"

namespace kiln {

// What a jailer says of the worker's jail: the first frame on its socket, before
// any reply.
struct JailReport {
  absl::Status status;  // why there is no jail, and no worker
  JailLevel level = JailLevel::kLimits;
  pid_t worker = 0;  // its number outside of the jail
  // Why it has not more, "namespaces: clone: Operation not permitted"; empty
  // when there is nothing stronger.
  std::string lacks;
};

std::string JailReportText(const JailReport& report);
// DATA_LOSS when `text` is no report.
absl::StatusOr<JailReport> JailReportFrom(absl::string_view text);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_REPORT_H_

#ifndef KILN_PROTO_BASE_WORK_ERROR_H_
#define KILN_PROTO_BASE_WORK_ERROR_H_

#include "absl/status/status.h"
#include "proto/worker.pb.h"

namespace kiln {

// A worker's failure on the wire, with its refusals (refusal.h): it writes what the daemon, or a client with a
// worker of its own, reads.

// `status` is not OK.
wire::WorkError WorkErrorOf(const absl::Status& status);

// The status that the worker had. Never OK: an error without a reason and
// without a code, or with one that nobody knows, is INTERNAL and says so.
absl::Status StatusOf(const wire::WorkError& error);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_WORK_ERROR_H_

#ifndef KILN_PROTO_BASE_STATUS_H_
#define KILN_PROTO_BASE_STATUS_H_

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Why something failed, for programs. The message is for people.
//
// A reason has one status code for life, so a client's retry rule can hang on
// the code alone. The table is in status.cc; docs/errors.md tells who acts.
enum class ErrorReason {
  kMalformedGraph,  // INVALID_ARGUMENT: the caller mends the request
  kBadTarget,       // INVALID_ARGUMENT
  kBadOption,       // INVALID_ARGUMENT
  kUnsupportedOp,  // UNIMPLEMENTED: an operator, dtype, layout or feature, named
  kTooLarge,       // OUT_OF_RANGE: a message, a tensor or a name over its limit
  kToolchainRejected,  // INTERNAL: our source is wrong
  kNoToolchain,  // FAILED_PRECONDITION: the machine lacks a compiler or NVRTC
  kWorkerDied,   // UNAVAILABLE: retry once
  kJobPoisoned,  // ABORTED: the job has ended two workers; not retried for a while
  kQueueFull,             // RESOURCE_EXHAUSTED: back off
  kDraining,              // UNAVAILABLE: another daemon, or later
  kArtifactIncompatible,  // FAILED_PRECONDITION: compile for this device or version
  kArtifactCorrupt,       // DATA_LOSS: checksum or structure
  kArtifactUntrusted,  // PERMISSION_DENIED: signature or signer
  kGuardFailed,  // FAILED_PRECONDITION: the inputs are not those compiled for
  kStorage,      // UNAVAILABLE: disk full, folder unwritable
  kInUse,  // ALREADY_EXISTS: another process has the database or the socket
  kPermission,       // PERMISSION_DENIED: peer, socket or file
  kNoDevice,         // FAILED_PRECONDITION: no such device or driver here
  kUnauthenticated,  // UNAUTHENTICATED: no token or certificate, or a bad one
};

// "MALFORMED_GRAPH". The word on the wire, in logs and in docs/errors.md.
absl::string_view ReasonName(ErrorReason reason);
std::optional<ErrorReason> ReasonFromName(absl::string_view name);

// The one code of `reason`.
absl::StatusCode CodeOf(ErrorReason reason);

// An error with `reason`, its one code, and a message: the subject, what was
// found, what was due. No full stop, no "failed to".
absl::Status MakeError(ErrorReason reason, absl::string_view message);

// The reason MakeError gave, if any. It survives Annotate.
std::optional<ErrorReason> ReasonOf(const absl::Status& status);

// Puts "`where`: " in front of the message of a non-OK status. Code and reason
// stay. OK stays OK.
absl::Status Annotate(absl::Status status, absl::string_view where);

// Drops a status on purpose; `because` is for the reader.
inline void IgnoreBecause(const absl::Status&, absl::string_view because) {}

}  // namespace kiln

#define RETURN_IF_ERROR(expr)                    \
  do {                                           \
    ::absl::Status kiln_status_ = (expr);        \
    if (!kiln_status_.ok()) return kiln_status_; \
  } while (false)

#define KILN_CONCAT_INNER_(a, b) a##b
#define KILN_CONCAT_(a, b) KILN_CONCAT_INNER_(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) \
  KILN_ASSIGN_OR_RETURN_(KILN_CONCAT_(kiln_statusor_, __LINE__), lhs, expr)
#define KILN_ASSIGN_OR_RETURN_(tmp, lhs, expr)   \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()

#endif  // KILN_PROTO_BASE_STATUS_H_

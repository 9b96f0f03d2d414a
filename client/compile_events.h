#ifndef KILN_CLIENT_COMPILE_EVENTS_H_
#define KILN_CLIENT_COMPILE_EVENTS_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/steady_time.h"
#include "proto/compile_service.grpc.pb.h"

namespace kiln {

// How long to wait for one Compile call, and who is told of its progress.
struct EventsWanted {
  SteadyTime deadline;
  // A daemon that sends no event for this long counts as stopped (DaemonIsSilent).
  absl::Duration longest_silence;
  // Called on the calling thread for each Progress message. May be empty.
  std::function<void(const wire::Progress&)> on_progress;
};

// Sends the graph and waits for the result.
//
// Errors: those of CompileService.Compile with their reasons; DEADLINE_EXCEEDED;
// UNAVAILABLE and DaemonIsSilent after the longest silence.
absl::StatusOr<wire::CompileResult> CompileAndWait(
    wire::CompileService::Stub& stub, const wire::CompileRequest& request,
    const EventsWanted& wanted);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILE_EVENTS_H_

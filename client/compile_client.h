#ifndef KILN_CLIENT_COMPILE_CLIENT_H_
#define KILN_CLIENT_COMPILE_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/daemon_channel.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "proto/base/trusted_keys.h"
#include "proto/compile_service.pb.h"
#include "proto/key/request_digest.h"

namespace kiln {

// What a compile gave, wherever it was done. `artifact` is not verified yet:
// runtime/artifact_view does that.
struct CompileOutcome {
  wire::SignedArtifact artifact;
  // Of the request as it was asked: what the artifact must answer.
  Digest request_digest;
  wire::CompileResult::ServedFrom served_from =
      wire::CompileResult::SERVED_FROM_UNSPECIFIED;
  // Where the time went; zero for what the cache gave.
  absl::Duration queued;
  absl::Duration planned;
  absl::Duration built;
  int units_built = 0;
  int units_cached = 0;
  // Why something that max_autotune wants measured was not.
  absl::Status measured;
};

// Longer than any compile should take: the limit of a wait that has no other.
inline constexpr absl::Duration kLongestCompile = absl::Minutes(10);

struct CompileCall {
  SteadyTime deadline = SteadyIn(kLongestCompile);
  // Called on the calling thread for each Progress of the daemon. A function,
  // since only the caller knows where people look. May be empty.
  std::function<void(const wire::Progress&)> on_progress;
};

// Compiles through a daemon: asks for the artifact by the digest of the
// request, and sends the graph only when the daemon has none.
//
// Thread-safe.
class CompileClient {
 public:
  // Connects and learns who signs. UNAVAILABLE when no daemon answers within
  // the address's answer_timeout (DaemonIsSilent); ARTIFACT_UNTRUSTED when one
  // behind TCP signs
  // with none of the address's keys; else the errors of OpenDaemonChannel.
  static absl::StatusOr<std::unique_ptr<CompileClient>> Connect(
      const DaemonAddress& address);

  // Errors: those of CompileService.Compile, with their reason; those of
  // CanonicalizeRequest, before anything is sent; UNAVAILABLE when the daemon
  // is gone (a broken connection is opened again, once);
  // QUEUE_FULL when the daemon had no place until the deadline: it is asked again,
  // after pauses that grow and differ from caller to caller;
  // DEADLINE_EXCEEDED, in time: after answer_timeout where the daemon has not
  // said by then whether it has the artifact (DaemonIsSilent).
  //
  // With max_autotune among the request's options the daemon first measures what
  // has no decision yet. What comes of that fails no compile (`measured`): the
  // caller may have no right to it, or the daemon's machine no such device.
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request,
                                         const CompileCall& call)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whose artifacts may be taken from this daemon, as it said last.
  TrustedKeys keys() const ABSL_LOCKS_EXCLUDED(mu_);
  // Asks the daemon for its keys again: it may have others, or have revoked some.
  // Errors: those of Connect; the keys stay what they were then.
  absl::Status RefreshKeys() ABSL_LOCKS_EXCLUDED(mu_);
  // The daemon's version and build, for people: "kilnd 0.1.0, build 1a2b3c4d".
  const std::string& build() const { return build_; }
  const DaemonAddress& address() const { return address_; }

 private:
  CompileClient(DaemonAddress address, TrustedKeys keys, std::string build,
                std::shared_ptr<grpc::Channel> channel)
      : address_(std::move(address)),
        build_(std::move(build)),
        keys_(std::move(keys)),
        channel_(std::move(channel)) {}

  absl::StatusOr<CompileOutcome> Ask(const CanonicalRequest& canonical,
                                     const wire::CompileRequest& request,
                                     const CompileCall& call)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status MeasureFirst(const wire::CompileRequest& request,
                            SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<grpc::Channel> channel() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Reconnect(const std::shared_ptr<grpc::Channel>& broken)
      ABSL_LOCKS_EXCLUDED(mu_);

  const DaemonAddress address_;
  const std::string build_;
  mutable Mutex mu_;
  TrustedKeys keys_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILE_CLIENT_H_

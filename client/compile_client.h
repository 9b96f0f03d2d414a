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

// The result of a compile by a daemon or a local worker. `artifact` is not verified yet;
// runtime/artifact_view does that.
struct CompileOutcome {
  wire::SignedArtifact artifact;
  // The digest of the request, which the artifact must name.
  Digest request_digest;
  wire::CompileResult::ServedFrom served_from =
      wire::CompileResult::SERVED_FROM_UNSPECIFIED;
  // How long each phase took; zero if the artifact came from the cache.
  absl::Duration queued;
  absl::Duration planned;
  absl::Duration built;
  int units_built = 0;
  int units_cached = 0;
  // Why a measurement that max_autotune asks for was not made.
  absl::Status measured;
};

// The default deadline of a compile: longer than any compile should take.
inline constexpr absl::Duration kLongestCompile = absl::Minutes(10);

struct CompileCall {
  SteadyTime deadline = SteadyIn(kLongestCompile);
  // Called on the calling thread for each Progress message of the daemon. May be empty.
  std::function<void(const wire::Progress&)> on_progress;
};

// Compiles through a daemon. It asks for the artifact by the digest of the request, and
// sends the graph only if the daemon has no artifact.
//
// Thread-safe.
class CompileClient {
 public:
  // Connects to the daemon and asks for its keys.
  //
  // Errors: those of OpenDaemonChannel; UNAVAILABLE if no daemon answers within the
  // address's answer_timeout (DaemonIsSilent); ARTIFACT_UNTRUSTED if a daemon behind TCP
  // signs with none of the address's keys.
  static absl::StatusOr<std::unique_ptr<CompileClient>> Connect(
      const DaemonAddress& address);

  // Errors: those of CanonicalizeRequest, before anything is sent; those of
  // CompileService.Compile, with their reason; and
  //   UNAVAILABLE        the daemon is gone; a broken connection is reopened once
  //   QUEUE_FULL         the queue stayed full until the deadline; the daemon is asked
  //                      again after growing, random pauses
  //   DEADLINE_EXCEEDED  never late; already after answer_timeout if the daemon has not
  //                      said whether it has the artifact (DaemonIsSilent)
  //
  // If the request has max_autotune, the daemon first measures what has no tuning
  // decision yet. A failed measurement does not fail the compile (see `measured`): the
  // caller may lack the permission, or the daemon's machine the device.
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request,
                                         const CompileCall& call)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The keys that artifacts of this daemon are verified with.
  TrustedKeys keys() const ABSL_LOCKS_EXCLUDED(mu_);
  // Asks the daemon for its keys again, which may have changed or been revoked.
  // Errors: those of Connect; then the keys stay as they were.
  absl::Status RefreshKeys() ABSL_LOCKS_EXCLUDED(mu_);
  // The daemon's version and build, for messages: "kilnd 0.1.0, build 1a2b3c4d".
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

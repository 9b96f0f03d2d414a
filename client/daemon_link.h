#ifndef KILN_CLIENT_DAEMON_LINK_H_
#define KILN_CLIENT_DAEMON_LINK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/compile_client.h"
#include "proto/base/circuit_breaker.h"
#include "proto/base/mutex.h"

namespace kiln {

struct DaemonLinkOptions {
  DaemonAddress daemon;
  absl::Duration compile_deadline;
  // How long a daemon that did not answer is not asked again. Zero: it always is.
  absl::Duration silence_pause;
  // See SessionOptions. May be empty.
  std::function<void(const std::string& graph, const wire::Progress&)>
      on_progress;
  std::function<std::optional<DaemonAddress>()> find_daemon;
};

// Tracks the daemon that a session talks to. When the connection is lost,
// `find_daemon` supplies a replacement. When the daemon stops answering
// (daemon_status.h), a replacement at another address is used; if there is none,
// the daemon is left alone for `silence_pause` and then probed by one compile per
// pause until it answers.
//
// Thread-safe.
class DaemonLink {
 public:
  explicit DaemonLink(DaemonLinkOptions options)
      : options_(std::move(options)), breaker_(options_.silence_pause) {}

  // Connects ahead of the first compile. Errors: those of CompileClient::Connect.
  absl::Status Connect();

  // Errors: those of CompileClient. While the daemon is left alone, returns at once
  // with DaemonIsSilent and the message of the compile that found it silent.
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request);

  // The keys that may sign its artifacts; none until it has been reached.
  TrustedKeys keys() const ABSL_LOCKS_EXCLUDED(mu_);
  // Asks the daemon for its keys again, unless it was never reached or is left alone.
  // On an error the keys stay as they were.
  absl::Status RefreshKeys() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Client = std::shared_ptr<CompileClient>;

  Client client() const ABSL_LOCKS_EXCLUDED(mu_);
  // The address of the daemon that is asked next.
  std::string Place() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Client> ConnectTo(const DaemonAddress& address)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<CompileOutcome> Ask(const wire::CompileRequest& request);
  // Connects to a replacement for the daemon at `place`, which is gone or silent
  // (`why`). Errors: `why`; DaemonIsSilent if the replacement does not answer.
  absl::Status FindAnother(const std::string& place, const absl::Status& why);
  // Records the status of a call and returns it. The message stays the same for as
  // long as the daemon does not answer.
  absl::Status Heard(const absl::Status& status, const DaemonAddress& from)
      ABSL_LOCKS_EXCLUDED(mu_);

  const DaemonLinkOptions options_;
  CircuitBreaker breaker_;
  mutable Mutex mu_;
  // Null until the daemon was reached.
  Client client_ ABSL_GUARDED_BY(mu_);
  // The latest; OK before the first.
  absl::Status silence_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_LINK_H_

#ifndef KILN_CLIENT_DAEMON_LINK_H_
#define KILN_CLIENT_DAEMON_LINK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/circuit_breaker.h"
#include "client/compile_client.h"
#include "proto/base/mutex.h"

namespace kiln {

struct DaemonLinkOptions {
  DaemonAddress daemon;
  absl::Duration compile_deadline;
  // How long a daemon that kept silent is left alone; zero: it is asked always.
  absl::Duration silence_pause;
  // As SessionOptions has them. May be empty.
  std::function<void(const std::string& graph, const wire::Progress&)>
      on_progress;
  std::function<std::optional<DaemonAddress>()> find_daemon;
};

// A session's daemon, whichever that is at the time. Instead of one that is gone
// another is asked, which find_daemon finds; instead of one that is silent
// (daemon_status.h) another that is elsewhere. Without another, the silent one is
// left alone for a pause, then asked by one compile a pause until it answers.
//
// Thread-safe.
class DaemonLink {
 public:
  explicit DaemonLink(DaemonLinkOptions options)
      : options_(std::move(options)), breaker_(options_.silence_pause) {}

  // Reaches the daemon before the first compile asks it. Errors: those of
  // CompileClient::Connect.
  absl::Status Connect();

  // Errors: those of CompileClient; at once DaemonIsSilent, as the compile before
  // had it, while the daemon is left alone for that.
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request);

  // Whose artifacts may be taken from it; none before it was reached.
  std::vector<PublicKey> public_keys() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Client = std::shared_ptr<CompileClient>;

  Client client() const ABSL_LOCKS_EXCLUDED(mu_);
  // Where the daemon is that is asked next.
  std::string Place() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Client> ConnectTo(const DaemonAddress& address)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<CompileOutcome> Ask(const wire::CompileRequest& request);
  // Connects to one instead of that at `place`, which is gone or silent, as `why`
  // says. Errors: `why`; DaemonIsSilent of the one that was found.
  absl::Status FindAnother(const std::string& place, const absl::Status& why);
  // Notes what was heard of a daemon, and gives it on: in words that stay the
  // same as long as it keeps silent.
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

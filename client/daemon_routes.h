#ifndef KILN_CLIENT_DAEMON_ROUTES_H_
#define KILN_CLIENT_DAEMON_ROUTES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/daemon_link.h"
#include "proto/base/circuit_breaker.h"

namespace kiln {

// The numbers of `places` in the order in which a request with this digest asks
// them: by rendezvous hashing, each place has a score for each request, and the
// highest is first. So clients that know the same daemons, in any order, ask the
// same one, and each daemon's own compiles stay one for all; where a daemon goes,
// its requests alone move.
std::vector<size_t> OrderOfPlaces(const std::vector<std::string>& places,
                                  absl::string_view request_digest);

// The daemons that a session may ask. Of several, each request has a first one
// (OrderOfPlaces); the next is asked when that one is gone or does not answer. One
// that was gone is left alone for kAwayPause, then one compile tries it again.
//
// Thread-safe.
class DaemonRoutes {
 public:
  static constexpr absl::Duration kAwayPause = absl::Seconds(10);

  // At least one, each with another address.
  explicit DaemonRoutes(std::vector<DaemonLinkOptions> daemons);

  // Reaches all. OK when one of them answers; else the first one's error.
  absl::Status Connect();

  // Waits at most as long as each daemon may take in turn; one that does not answer
  // has its answer_timeout, and is then left alone.
  //
  // Errors: those of DaemonLink::Compile, from the last daemon that was asked.
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request);

  // Of all daemons that were reached.
  TrustedKeys keys() const;
  // Asks all again. The first error, after all were asked.
  absl::Status RefreshKeys();

 private:
  struct Route {
    std::string place;
    std::unique_ptr<DaemonLink> link;
    std::unique_ptr<CircuitBreaker> away;
  };

  absl::StatusOr<CompileOutcome> Ask(Route& route,
                                     const wire::CompileRequest& request);

  std::vector<std::string> places_;
  std::vector<Route> routes_;
};

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_ROUTES_H_

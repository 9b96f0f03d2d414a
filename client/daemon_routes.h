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

// The indices of `places` in the order in which they are asked for a request with this
// digest. This is rendezvous hashing: each place has a score for each request, and the
// highest comes first. Clients that know the same daemons, in any order, ask the same
// one, so that a graph is compiled once for all of them. When a daemon goes, only its
// own requests move to others.
std::vector<size_t> OrderOfPlaces(const std::vector<std::string>& places,
                                  absl::string_view request_digest);

// The daemons that a session may ask. If there are several, OrderOfPlaces says in which
// order; the next is asked if one is gone or does not answer. A daemon that is gone is
// not asked for kAwayPause; then one compile tries it again.
//
// Thread-safe.
class DaemonRoutes {
 public:
  static constexpr absl::Duration kAwayPause = absl::Seconds(10);

  // `daemons`: at least one; their addresses must differ.
  explicit DaemonRoutes(std::vector<DaemonLinkOptions> daemons);

  // Connects to all. OK if at least one answers; else the first one's error.
  absl::Status Connect();

  // Asks one daemon after another. One that does not answer takes its answer_timeout
  // and is then left alone.
  //
  // Errors: those of DaemonLink::Compile for the last daemon that was asked.
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request);

  // The keys of all daemons that were reached.
  TrustedKeys keys() const;
  // Asks all daemons for their keys again. Returns the first error.
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

#ifndef KILN_SERVER_DOORSTEP_H_
#define KILN_SERVER_DOORSTEP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "server/peer_rates.h"

namespace kiln {

// What a connection's first bytes are to be.
enum class Greeting {
  kAny,
  kHttp2,  // all of its preface
  kTls,    // a ClientHello of TLS 1.2 or later
};

// What is wrong with a connection that has said `said` and no more so far; empty:
// nothing. `enough`: whether that will stay so.
absl::string_view FaultOfGreeting(Greeting due, absl::string_view said,
                                  bool& enough);

// Where connections wait until they have said something. gRPC would wait too, and
// tells nobody whom it waited for in vain, or who spoke something else. What they
// say is looked at and not taken.
//
// One thread of its own, joined by the destructor. Thread-safe.
class Doorstep {
 public:
  // Functions, since what takes connections is a gRPC server, which has no
  // interface that this room could name. Called on the thread of the doorstep.
  struct Ways {
    // Owns the descriptor.
    std::function<void(int fd)> pass;
    // The connection is about to be closed, and why.
    std::function<void(int fd, absl::string_view why)> refuse;
    // The same, of a peer whose connections were passed too often.
    std::function<void(int fd, const std::string& peer)> put_off;
  };
  // What is let pass. A handshake costs the machine a signature or two, and whoever
  // makes one and goes makes the next at once.
  struct Rules {
    Greeting due = Greeting::kAny;
    // A connection may say nothing for so long.
    absl::Duration patience;
    // How often a peer's are passed.
    Rate passes;
  };

  // `clock`, which the rate goes by, outlives this.
  //
  // STORAGE when the machine has no descriptors left.
  static absl::StatusOr<std::unique_ptr<Doorstep>> Start(const Rules& rules,
                                                         const Clock& clock,
                                                         Ways ways);

  Doorstep(const Doorstep&) = delete;
  Doorstep& operator=(const Doorstep&) = delete;
  // Closes those that wait.
  ~Doorstep();

  // Owns the descriptor: connected, non-blocking. `peer`: whose rate it counts in;
  // empty: nobody's.
  void Take(int fd, const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    SteadyTime until;
    std::string peer;
  };
  Doorstep(const Rules& rules, const Clock& clock, Ways ways, int epoll_fd,
           int stop_fd);
  void Loop();
  // Something came, or the other end has gone.
  void Look(int fd);
  void CloseSilent();
  // It waits no more: whose it is, or nothing when it did not wait.
  std::optional<std::string> Leave(int fd) ABSL_LOCKS_EXCLUDED(mu_);

  const Rules rules_;
  PeerRates passes_;
  const Ways ways_;
  const int epoll_fd_;
  const int stop_fd_;  // an eventfd; readable: end
  Mutex mu_;
  std::unordered_map<int, Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // last: it reads the members above
};

}  // namespace kiln

#endif  // KILN_SERVER_DOORSTEP_H_

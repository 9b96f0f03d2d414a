#ifndef KILN_SERVER_ACCEPT_LOOP_H_
#define KILN_SERVER_ACCEPT_LOOP_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "server/counters.h"
#include "server/listen_socket.h"

namespace kiln {

// Takes connections from a Unix socket, asks the kernel who is at the other end
// (SO_PEERCRED) and hands on those of the allowed user. Others are closed
// without a word, counted and logged. gRPC 1.51 does not show a peer's user,
// hence a loop of our own.
//
// One thread of its own, joined by the destructor.
class AcceptLoop {
 public:
  // `take` owns the descriptor it gets: connected, non-blocking, close-on-exec.
  // A function, since the only taker is a gRPC server, which has no interface
  // that this room could name. Called on the loop's thread. `counters` outlives
  // the loop.
  //
  // STORAGE when the machine has no descriptors left.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Start(
      ListenSocket socket, uid_t allowed_uid, Counters& counters,
      std::function<void(int fd)> take);

  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;
  // Ends the thread and closes the socket; connections handed on live on.
  ~AcceptLoop();

 private:
  AcceptLoop(ListenSocket socket, uid_t allowed_uid, Counters& counters,
             std::function<void(int fd)> take, int stop_fd);
  void Loop();
  void AcceptAll();

  const ListenSocket socket_;
  const uid_t allowed_uid_;
  Counters& counters_;
  const std::function<void(int fd)> take_;
  const int stop_fd_;   // an eventfd; readable: end
  std::thread thread_;  // last: it reads the members above
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCEPT_LOOP_H_

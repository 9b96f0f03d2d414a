#ifndef KILN_SERVER_ACCEPT_LOOP_H_
#define KILN_SERVER_ACCEPT_LOOP_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln {

// Accepts the connections of listening sockets and hands them on. gRPC 1.51 shows
// no peer's user and has no limit of connections, hence a loop of our own.
//
// One thread of its own, joined by the destructor.
class AcceptLoop {
 public:
  // `listening`: non-blocking, of the caller, open until the loop has ended.
  // `take` owns the descriptor it gets: connected, non-blocking, close-on-exec. A
  // function, since what takes them is a gRPC server, which has no interface that
  // this room could name. It is called on the loop's thread.
  //
  // STORAGE when the machine has no descriptors left.
  using Take = std::function<void(int fd)>;
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Start(
      std::vector<int> listening, Take take);

  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;
  // Ends the thread; connections handed on live on.
  ~AcceptLoop();

 private:
  AcceptLoop(std::vector<int> listening, Take take, int stop_fd);
  void Loop();
  void AcceptAll(int listening);

  const std::vector<int> listening_;
  const Take take_;
  const int stop_fd_;   // an eventfd; readable: end
  std::thread thread_;  // last: it reads the members above
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCEPT_LOOP_H_

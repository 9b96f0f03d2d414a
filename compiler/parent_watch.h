#ifndef KILN_COMPILER_PARENT_WATCH_H_
#define KILN_COMPILER_PARENT_WATCH_H_

#include <atomic>

namespace kiln {

// Ends this process and its compilers when whoever started it is gone.
//
// A worker sees the end of its stream when it reads the next request, and that
// may be minutes away: till then a daemon that was killed leaves it and its
// compiler at work for nobody. So a thread looks at the stream while it works,
// and kills the process group at the stream's end. A process that leads no group
// ends alone: the group is its parent's.
//
// One thread but for the watching one, which is never joined: one watch a
// process, for all its life.
class ParentWatch {
 public:
  // `socket_fd` stays open as long as the process.
  explicit ParentWatch(int socket_fd);

  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

  // While a request is worked on. Between requests the end of the stream is the
  // reader's to see.
  void SetWorking(bool working) { working_ = working; }

 private:
  void Watch(int socket_fd);

  std::atomic<bool> working_ = false;
};

}  // namespace kiln

#endif  // KILN_COMPILER_PARENT_WATCH_H_

#include "compiler/parent_watch.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace kiln {
namespace {

// Between looks once the stream has ended: the reader needs less to end us.
constexpr int kLookAgainMs = 1;

void EndAll() {
  // 0: all of the own group, this process with it.
  if (getpgrp() == getpid()) kill(0, SIGKILL);
  _exit(1);
}

}  // namespace

ParentWatch::ParentWatch(int socket_fd) {
  std::thread([this, socket_fd] { Watch(socket_fd); }).detach();
}

void ParentWatch::Watch(int socket_fd) {
  // For the end alone: data is the reader's.
  pollfd entry = {.fd = socket_fd, .events = 0, .revents = 0};
  while (poll(&entry, 1, -1) <= 0) {
  }
  // A request may have been read just before the end.
  while (!working_) poll(nullptr, 0, kLookAgainMs);
  EndAll();
}

}  // namespace kiln

#include "server/unheard_connections.h"

#include <vector>

#include "server/open_connections.h"

namespace kiln {

void UnheardConnections::Add(int fd, const std::string& peer) {
  bool again = false;
  {
    MutexLock lock(&mu_);
    // A peer that is there already has closed its first connection, and opened
    // another from the same port.
    again =
        !by_peer_.insert_or_assign(peer, Socket{fd, SocketCookie(fd)}).second;
  }
  if (again) left_(peer);
}

void UnheardConnections::Hear(const std::string& peer) {
  MutexLock lock(&mu_);
  by_peer_.erase(peer);
}

void UnheardConnections::Sweep() {
  std::vector<std::string> gone;
  {
    MutexLock lock(&mu_);
    for (const auto& [peer, socket] : by_peer_)
      if (SocketCookie(socket.fd) != socket.cookie) gone.push_back(peer);
    for (const std::string& peer : gone) by_peer_.erase(peer);
  }
  for (const std::string& peer : gone) left_(peer);
}

}  // namespace kiln

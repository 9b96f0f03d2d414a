#include "server/daemon.h"

#include <utility>

#include "proto/base/status.h"
#include "server/wired_daemon.h"

namespace kiln {

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(
    const Config& config, uid_t owner, std::shared_ptr<const Clock> clock) {
  auto daemon = std::make_unique<WiredDaemon>(config, std::move(clock));
  RETURN_IF_ERROR(daemon->Open(owner));
  return daemon;
}

}  // namespace kiln

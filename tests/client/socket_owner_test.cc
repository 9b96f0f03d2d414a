// Whose process a client takes for its daemon.
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/daemon_channel.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

constexpr uid_t kNobody = 65534;

// Listens at `path` as `user`, says so, and waits for its end.
[[noreturn]] void Impersonate(const std::string& path, uid_t user, int ready) {
  if (user != geteuid() && (setgid(user) != 0 || setuid(user) != 0)) _exit(1);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listens = bind(fd, reinterpret_cast<const sockaddr*>(&address),
                            sizeof(address)) == 0 &&
                       listen(fd, 8) == 0 && write(ready, "x", 1) == 1;
  if (!listens) _exit(1);
  while (true) pause();
}

// As root the daemon of nobody's; else one of this user's, with another due.
TEST(SocketOwner, AnotherUsersDaemonIsNotTrusted) {
  const bool is_root = geteuid() == 0;
  const ShortFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  int ready[2] = {-1, -1};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t impostor = fork();
  if (impostor == 0) {
    close(ready[0]);
    Impersonate(path, is_root ? kNobody : geteuid(), ready[1]);
  }
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);

  DaemonAddress address;
  address.socket = path;
  if (!is_root) address.socket_owner = geteuid() + 1;
  const absl::Status refused = OpenDaemonChannel(address).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << refused;
  EXPECT_TRUE(absl::StrContains(
      refused.message(), is_root ? "runs as user 65534, expected 0"
                                 : absl::StrCat("runs as user ", geteuid(),
                                                ", expected ", geteuid() + 1)))
      << refused;
  // Whoever says that it may be that user's is believed.
  address.socket_owner = is_root ? kNobody : geteuid();
  EXPECT_TRUE(OpenDaemonChannel(address).ok());
  kill(impostor, SIGKILL);
  waitpid(impostor, nullptr, 0);
}

}  // namespace
}  // namespace kiln

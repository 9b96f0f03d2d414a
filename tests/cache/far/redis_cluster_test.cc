// RedisCluster against a server that sends it elsewhere without end.
#include "cache/far/redis_cluster.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cache/far/resp.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

// Answers at one port of all of 127.0.0.0/8: a lone server, but each command is
// redirected to an address that it named never before.
class EndlessRedirects {
 public:
  // `word`: MOVED or ASK.
  explicit EndlessRedirects(std::string word)
      : word_(std::move(word)),
        door_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(door_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(door_, 128), 0);
    getsockname(door_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    EXPECT_EQ(pipe(end_), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~EndlessRedirects() {
    close(end_[1]);
    thread_.join();
    for (const auto& [fd, reader] : callers_) close(fd);
    close(end_[0]);
    close(door_);
  }

  HostPort place() const { return {"127.0.0.1", port_}; }

 private:
  void Serve() {
    while (true) {
      std::vector<pollfd> all = {{end_[0], POLLIN, 0}, {door_, POLLIN, 0}};
      for (const auto& [fd, reader] : callers_) all.push_back({fd, POLLIN, 0});
      poll(all.data(), all.size(), -1);
      if (all[0].revents != 0) return;
      if (all[1].revents != 0)
        callers_.emplace(accept4(door_, nullptr, nullptr, SOCK_CLOEXEC),
                         RespReader({}));
      for (size_t i = 2; i < all.size(); ++i)
        if (all[i].revents != 0) Hear(all[i].fd);
    }
  }

  void Hear(int fd) {
    char bytes[4096];
    const ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
    if (got <= 0) {
      callers_.erase(fd);
      close(fd);
      return;
    }
    RespReader& reader = callers_.at(fd);
    reader.Append({bytes, static_cast<size_t>(got)});
    std::string replies;
    while (true) {
      const auto command = reader.Next();
      if (!command.ok() || !command->has_value()) break;
      replies += AnswerTo((*command)->items.at(0).text);
    }
    send(fd, replies.data(), replies.size(), MSG_NOSIGNAL);
  }

  std::string AnswerTo(const std::string& command) {
    if (command == "ASKING") return "+OK\r\n";
    if (command == "CLUSTER")
      return "-ERR This instance has cluster support disabled\r\n";
    ++named_;
    return absl::StrCat("-", word_, " 0 127.1.", named_ / 250, ".",
                        1 + named_ % 250, ":", port_, "\r\n");
  }

  const std::string word_;
  const int door_;
  int port_ = 0;
  int end_[2];
  int named_ = 0;
  std::map<int, RespReader> callers_;
  std::thread thread_;
};

// Sockets of this process that are connected to `port`.
int ConnectionsTo(int port) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    int fd = -1;
    sockaddr_in peer = {};
    socklen_t size = sizeof(peer);
    if (!absl::SimpleAtoi(entry.path().filename().string(), &fd) ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
      continue;
    }
    if (peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) ++count;
  }
  return count;
}

class Redirected : public testing::TestWithParam<const char*> {};

TEST_P(Redirected, WithoutEndTheConnectionsStayFew) {
  constexpr int kCalls = 200;
  EndlessRedirects server(GetParam());
  RedisCluster redis({server.place()}, {});
  const std::string get = EncodeCommand({"GET", "key"});
  for (int i = 0; i < kCalls; ++i) {
    const auto replies =
        redis.Run("key", {get}, After(SteadyNow(), absl::Seconds(60)));
    ASSERT_TRUE(replies.ok()) << replies.status();
    // The last of its redirects.
    EXPECT_TRUE(replies->front().is(RespValue::Kind::kError));
  }
  const int open = ConnectionsTo(server.place().port);
  EXPECT_GT(open, 0);
  EXPECT_LE(open, static_cast<int>(RedisCluster::kMostKept));
}

INSTANTIATE_TEST_SUITE_P(Words, Redirected, testing::Values("ASK", "MOVED"));

}  // namespace
}  // namespace kiln

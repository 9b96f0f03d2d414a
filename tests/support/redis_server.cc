#include "tests/support/redis_server.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/steady_time.h"
#include "tests/support/free_port.h"
#include "tests/support/loopback.h"
#include "tests/support/run_program.h"

namespace kiln {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

bool Listens(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  const bool listens = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) == 0;
  close(fd);
  return listens;
}

// Knows of a sound cluster and, a replica, has what its primary has.
bool IsReady(const RedisServer& node) {
  const std::string replication =
      AskRedis(node.place(), {"INFO", "replication"}).text;
  return absl::StrContains(AskRedis(node.place(), {"CLUSTER", "INFO"}).text,
                           "cluster_state:ok") &&
         (absl::StrContains(replication, "role:master") ||
          absl::StrContains(replication, "master_link_status:up"));
}

}  // namespace

RedisServer::RedisServer(std::vector<std::string> args, bool tls)
    : args_(std::move(args)), tls_(tls), port_(FreePort()) {
  Start();
}

void RedisServer::Kill() { child_.reset(); }

void RedisServer::Restart() {
  Kill();
  Start();
}

void RedisServer::Freeze() { kill(child_->pid(), SIGSTOP); }

void RedisServer::Thaw() { kill(child_->pid(), SIGCONT); }

void RedisServer::Start() {
  ChildOptions options;
  options.program = "/usr/bin/redis-server";
  options.args = {"--bind", "127.0.0.1", "--dir",       folder_.path(),
                  "--save", "",          "--daemonize", "no"};
  const std::string port = absl::StrCat(port_);
  for (const std::string& word :
       {std::string("--port"), tls_ ? std::string("0") : port})
    options.args.push_back(word);
  if (tls_) {
    options.args.push_back("--tls-port");
    options.args.push_back(port);
  }
  options.args.insert(options.args.end(), args_.begin(), args_.end());
  options.env = {"PATH=/usr/bin:/bin"};
  options.output_file = absl::StrCat(folder_.path(), "/log");
  auto started = Child::Start(options);
  ASSERT_TRUE(started.ok()) << started.status();
  child_.emplace(*std::move(started));
  const SteadyTime deadline = After(SteadyNow(), kPatience);
  while (!Listens(port_)) {
    ASSERT_FALSE(child_->HasEnded()) << "redis-server ended";
    ASSERT_GT(TimeLeft(deadline), absl::ZeroDuration());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

RespValue AskRedis(const HostPort& place, const std::vector<std::string>& words,
                   const RedisOptions& options) {
  HostResolver resolver;
  const SteadyTime deadline = After(SteadyNow(), kPatience);
  const auto address = resolver.Resolve(place, deadline);
  EXPECT_TRUE(address.ok()) << address.status();
  auto connection = RedisConnection::Open(place, *address, options, deadline);
  EXPECT_TRUE(connection.ok()) << connection.status();
  if (!connection.ok()) return {};
  const std::vector<absl::string_view> views(words.begin(), words.end());
  auto replies = (*connection)->Run({EncodeCommand(views)}, deadline);
  EXPECT_TRUE(replies.ok()) << replies.status();
  return replies.ok() ? replies->front() : RespValue();
}

std::vector<std::unique_ptr<RedisServer>> StartRedisCluster(int servers) {
  std::vector<std::unique_ptr<RedisServer>> nodes;
  std::vector<std::string> create = {"redis-cli", "--cluster", "create"};
  for (int i = 0; i < servers; ++i) {
    nodes.push_back(std::make_unique<RedisServer>(std::vector<std::string>{
        "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
        "--appendonly", "no"}));
    create.push_back(nodes.back()->address());
  }
  for (const char* word : {"--cluster-replicas", "1", "--cluster-yes"})
    create.push_back(word);
  const ProgramRun made = RunProgram(create);
  EXPECT_EQ(made.exit_code, 0) << made.out << made.err;
  const SteadyTime deadline = After(SteadyNow(), kPatience);
  for (const auto& node : nodes) {
    while (!IsReady(*node)) {
      if (TimeLeft(deadline) == absl::ZeroDuration()) {
        ADD_FAILURE() << node->address() << " has no sound cluster";
        return nodes;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  return nodes;
}

}  // namespace kiln

#include "client/corpus_runner/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/compile_client.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

extern char** environ;

namespace kiln {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(10);
constexpr absl::Duration kDrainTimeout = absl::Seconds(5);
constexpr int kPauseMs = 20;
constexpr size_t kTailBytes = 2000;

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", text, "\"");
}

void WriteConfig(const PrivateDaemonOptions& options,
                 const std::string& socket) {
  std::vector<std::string> environment;
  for (const std::string& row : options.worker_environment) {
    environment.push_back(Quoted(row));
  }
  std::ofstream(options.folder + "/kilnd.toml")
      << "[listen]\nsocket = " << Quoted(socket) << "\n[storage]\n"
      << "data_folder = " << Quoted(options.folder + "/data") << "\n[workers]\n"
      << "program = " << Quoted(options.worker)
      << "\ncount = " << options.workers << "\nenv = ["
      << absl::StrJoin(environment, ", ") << "]\n";
}

std::string Tail(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  const std::string all = text.str();
  return all.substr(all.size() - std::min(all.size(), kTailBytes));
}

absl::StatusOr<pid_t> Spawn(const PrivateDaemonOptions& options) {
  const std::string log = options.folder + "/kilnd.log";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::string program = options.kilnd;
  std::string flag = "--config";
  std::string config = options.folder + "/kilnd.toml";
  char* arguments[] = {program.data(), flag.data(), config.data(), nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(program, ": ", std::strerror(error)));
  }
  return pid;
}

bool Reap(pid_t pid, int flags) { return waitpid(pid, nullptr, flags) == pid; }

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start(
    const PrivateDaemonOptions& options) {
  const std::string socket = options.folder + "/kilnd.sock";
  WriteConfig(options, socket);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(options));
  const SteadyTime give_up = SteadyIn(kStartTimeout);
  DaemonAddress address;
  address.socket = socket;
  absl::Status status;
  while (SteadyNow() < give_up) {
    status = CompileClient::Connect(address).status();
    if (status.ok()) {
      return std::unique_ptr<PrivateDaemon>(new PrivateDaemon(pid, socket));
    }
    if (Reap(pid, WNOHANG)) {
      return absl::UnavailableError(absl::StrCat(
          options.kilnd, " ended: ", Tail(options.folder + "/kilnd.log")));
    }
    poll(nullptr, 0, kPauseMs);
  }
  kill(pid, SIGKILL);
  Reap(pid, 0);
  return Annotate(status, options.kilnd);
}

PrivateDaemon::~PrivateDaemon() {
  kill(pid_, SIGTERM);
  const SteadyTime give_up = SteadyIn(kDrainTimeout);
  while (!Reap(pid_, WNOHANG)) {
    if (SteadyNow() >= give_up) {
      kill(pid_, SIGKILL);
      Reap(pid_, 0);
      return;
    }
    poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace kiln

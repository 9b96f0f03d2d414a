// kilnd: the compile daemon. Flags and environment are read here and nowhere
// else; everything below gets a Config.
//
// Exit codes: 0 ended as asked, 1 could not start or left jobs behind, 2 used
// wrongly.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/base/command_line.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/jail/own_memory.h"
#include "proto/jail/worker_environment.h"
#include "server/config.h"
#include "server/config_files.h"
#include "server/config_text.h"
#include "server/daemon.h"
#include "server/library_logs.h"
#include "server/socket_folder.h"

namespace kiln {
namespace {

constexpr char kFooter[] =
    "Exit codes: 0 ended as asked, 1 could not start or left jobs behind, "
    "2 used wrongly, 3 another process has the data folder or the socket.";

// For whoever starts one where another ends.
constexpr int kExitInUse = 3;

struct Flags {
  std::string config_file;
  std::optional<std::string> socket;
  std::optional<std::string> tcp;
  bool tcp_plain = false;
  std::optional<std::string> data_folder;
  std::optional<std::string> worker;
  std::optional<int64_t> workers;
  std::optional<int64_t> idle_exit_s;
  std::optional<std::string> log_format;
  std::optional<std::string> log_level;
  bool check_config = false;
};

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Where things go when nobody says: the user's own folders.
void SetDefaults(Config& config) {
  const std::string runtime = Environment("XDG_RUNTIME_DIR");
  const std::string state = Environment("XDG_STATE_HOME");
  const std::string own = absl::StrCat("/tmp/kiln-", getuid());
  config.socket = absl::StrCat(
      runtime.empty() ? own : absl::StrCat(runtime, "/kiln"), "/kilnd.sock");
  config.data_folder =
      !state.empty() ? absl::StrCat(state, "/kiln")
                     : absl::StrCat(Environment("HOME"), "/.local/state/kiln");
}

// Handed on to workers unless the configuration says otherwise.
void PassOnEnvironment(Config& config) {
  for (const char* name : kWorkerEnvironment) {
    const std::string value = Environment(name);
    bool named = false;
    for (const std::string& entry : config.worker_env) {
      named |= absl::StartsWith(entry, absl::StrCat(name, "="));
    }
    if (!value.empty() && !named) {
      config.worker_env.push_back(absl::StrCat(name, "=", value));
    }
  }
}

// kiln-worker beside this program, as installed, or where the build puts it.
std::string WorkerBeside() {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* place : {"kiln-worker", "../compiler/kiln-worker"}) {
    const std::filesystem::path path =
        (self.parent_path() / place).lexically_normal();
    if (access(path.c_str(), X_OK) == 0) return path.string();
  }
  return (self.parent_path() / "kiln-worker").string();
}

absl::StatusOr<Config> ConfigOf(const Flags& flags) {
  Config config;
  SetDefaults(config);
  if (!flags.config_file.empty()) {
    RETURN_IF_ERROR(ReadConfigFile(flags.config_file, config));
  }
  if (flags.socket) config.socket = *flags.socket;
  if (flags.tcp) config.tcp = *flags.tcp;
  if (flags.tcp_plain) config.tcp_plain = true;
  if (flags.data_folder) config.data_folder = *flags.data_folder;
  if (flags.worker) config.worker_program = *flags.worker;
  if (flags.workers) config.worker_count = *flags.workers;
  if (flags.idle_exit_s) config.idle_exit = absl::Seconds(*flags.idle_exit_s);
  if (flags.log_format) config.log_format = *flags.log_format;
  if (flags.log_level) config.log_level = *flags.log_level;
  if (config.worker_program.empty()) config.worker_program = WorkerBeside();
  // Workers run in folders of their own: a relative path would mean another.
  std::error_code error;
  for (std::string* path : {&config.worker_program, &config.data_folder}) {
    *path = std::filesystem::absolute(*path, error).string();
  }
  PassOnEnvironment(config);
  RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

LogOptions LogOptionsOf(const Config& config) {
  LogOptions options;
  options.format =
      config.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  options.level = config.log_level == "error"     ? LogLevel::kError
                  : config.log_level == "warning" ? LogLevel::kWarning
                                                  : LogLevel::kInfo;
  return options;
}

// Each connection costs a descriptor, and the usual soft limit, 1024, is there for
// programs that use select. Workers get limits of their own.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Serves until SIGTERM, SIGINT or AdminService.Drain.
int Serve(const Config& config) {
  // Blocked before any thread is, so that only the waiting thread gets them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);

  RaiseDescriptorLimit();
  KeepMemoryToItself();
  const absl::Status folder = TakeSocketFolder(config.socket);
  absl::StatusOr<std::unique_ptr<Daemon>> daemon =
      folder.ok() ? Daemon::Start(config, geteuid()) : folder;
  if (!daemon.ok()) {
    fprintf(stderr, "kilnd: %s\n",
            std::string(daemon.status().message()).c_str());
    return ReasonOf(daemon.status()) == ErrorReason::kInUse ? kExitInUse : 1;
  }
  std::thread signals([&ends, &daemon] {
    int number = 0;
    sigwait(&ends, &number);
    (*daemon)->RequestDrain();
  });
  (*daemon)->WaitForDrainRequest();
  // Ends the waiting thread too when it was not a signal that ended us.
  kill(getpid(), SIGTERM);
  signals.join();
  const bool emptied = (*daemon)->Drain();
  daemon->reset();
  return emptied ? 0 : 1;
}

void Define(Arguments& line, Flags& flags) {
  line.Option("--config", flags.config_file, "TOML file");
  line.Option("--socket", flags.socket, "path of the Unix socket");
  line.Option("--tcp", flags.tcp,
              "address to listen on as well; takes TLS files in --config");
  line.Flag("--tcp-plain", flags.tcp_plain,
            "--tcp, a loopback address, without TLS: compiles alone");
  line.Option("--data-folder", flags.data_folder,
              "database, key and scratch folders");
  line.Option("--worker", flags.worker, "the kiln-worker program");
  line.Option("--workers", flags.workers, "how many; 0: one a core");
  line.Option("--idle-exit-s", flags.idle_exit_s,
              "exit after so many seconds without a call; 0: never");
  line.Option("--log-format", flags.log_format, "text or json");
  line.Option("--log-level", flags.log_level, "info, warning or error");
  line.Flag("--check-config", flags.check_config,
            "print the whole configuration as it would be used, and end; 1 "
            "where a file that it names is not good");
}

int Main(int argc, char** argv) {
  Flags flags;
  CommandLine line({.program = "kilnd",
                    .what = "kilnd: compiles tensor graphs once for everybody",
                    .footer = kFooter,
                    .version = absl::StrCat("kilnd ", kKilndVersion)});
  Define(line.arguments(), flags);
  if (const std::optional<int> end = line.Parse(argc, argv)) return *end;
  const absl::StatusOr<Config> config = ConfigOf(flags);
  if (!config.ok()) {
    fprintf(stderr, "kilnd: %s\n",
            std::string(config.status().message()).c_str());
    return 2;
  }
  if (flags.check_config) {
    const absl::Status files = CheckFiles(*config);
    if (!files.ok()) {
      fprintf(stderr, "kilnd: %s\n", std::string(files.message()).c_str());
      return 1;
    }
    fputs(ConfigText(*config).c_str(), stdout);
    return 0;
  }
  IgnoreBecause(ConfigureLog(LogOptionsOf(*config)),
                "only a log file can fail, and none is named");
  TakeLibraryLogs();
  // Debian's Abseil is a debug build here: with each lock that gRPC takes it looks for
  // cycles in a graph of all locks, under one lock of the process.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return Serve(*config);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

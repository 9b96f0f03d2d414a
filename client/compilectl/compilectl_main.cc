// compilectl: looks at a daemon and tells it what to do. Flags and environment
// are read here only; the commands stand in commands.h and doctor.h.
//
// Exit codes: 0 done, 1 refused or failed, 2 used wrongly.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compilectl/commands.h"
#include "client/compilectl/completion.h"
#include "client/compilectl/doctor.h"
#include "client/compilectl/installation.h"
#include "client/compilectl/public_keys.h"
#include "client/daemon_identity.h"
#include "client/version.h"
#include "proto/base/command_line.h"
#include "proto/base/duration_text.h"
#include "proto/base/status.h"
#include "proto/base/tcp_address.h"
#include "proto/jail/worker_environment.h"

namespace kiln {
namespace {

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 refused or failed, 2 used wrongly.\n"
    "Environment: KILN_SOCKET, the daemon's socket; KILN_PUBLIC_KEY, "
    "KILN_TLS_CA, KILN_TLS_CERTIFICATE, KILN_TLS_KEY and KILN_TOKEN_FILE, for "
    "--tcp.";

struct Flags {
  std::optional<std::string> socket;
  std::string tcp;
  std::string public_keys_hex;  // with commas between
  DaemonTls tls;
  std::string action = "ls";
  std::string key_action = "list";
  TokenOptions token;
  std::string token_life;
  std::string data_folder;
  std::string format = "table";
  double timeout_seconds = 10;
  std::string key;
  std::string shell;
  std::string older_than;
  int64_t limit = 0;
  bool kernels = false;
  bool sources = false;
  bool trace = false;
  CaseOptions explain;
  PurgeOptions purge;
  CaseOptions tune;
  std::string clear;
  bool clear_all = false;
  bool stop = false;
  bool unknown = false;
};

// What a command gives: the text for standard output, or why there is none.
using Outcome = absl::StatusOr<std::string>;

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// NAME=VALUE of what a worker may see.
std::vector<std::string> WorkerEnvironment() {
  std::vector<std::string> environment;
  for (const char* name : kWorkerEnvironment) {
    const std::string value = Environment(name);
    if (!value.empty()) environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

// As kilnd has it.
std::string DefaultSocket() {
  const std::string named = Environment("KILN_SOCKET");
  if (!named.empty()) return named;
  const std::string runtime = Environment("XDG_RUNTIME_DIR");
  return absl::StrCat(runtime.empty() ? absl::StrCat("/tmp/kiln-", getuid())
                                      : absl::StrCat(runtime, "/kiln"),
                      "/kilnd.sock");
}

std::string DefaultDataFolder() {
  const std::string state = Environment("XDG_STATE_HOME");
  return state.empty() ? absl::StrCat(Environment("HOME"), "/.local/state/kiln")
                       : absl::StrCat(state, "/kiln");
}

absl::StatusOr<DaemonAddress> AddressOf(const Flags& flags) {
  DaemonAddress address;
  address.answer_timeout = absl::Seconds(flags.timeout_seconds);
  if (flags.tcp.empty()) {
    address.socket = flags.socket.value_or(DefaultSocket());
    return address;
  }
  if (flags.socket.has_value()) {
    return MakeError(ErrorReason::kBadOption,
                     "--socket, --tcp: both are given; give one");
  }
  RETURN_IF_ERROR(
      Annotate(CheckTcpAddress(flags.tcp, /*least_port=*/1), "--tcp"));
  address.tcp = flags.tcp;
  address.tls = flags.tls;
  ASSIGN_OR_RETURN(address.public_keys, ReadPublicKeys(flags.public_keys_hex));
  return address;
}

// BAD_OPTION unless it is a wait that ends. A day bounds any that is meant.
absl::Status CheckTimeout(double seconds) {
  constexpr double kMost = 86400;
  if (seconds > 0 && seconds <= kMost) return absl::OkStatus();  // no NaN is
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("--timeout: found ", seconds, ", expected more than 0 to ",
                   kMost, " seconds"));
}

absl::StatusOr<AdminClient> Connect(const Flags& flags) {
  ASSIGN_OR_RETURN(const DaemonAddress address, AddressOf(flags));
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                   OpenDaemonChannel(address));
  RETURN_IF_ERROR(CheckIdentity(channel, address));
  return AdminClient(std::move(channel), absl::Seconds(flags.timeout_seconds));
}

OutputFormat FormatOf(const Flags& flags) {
  return flags.format == "json" ? OutputFormat::kJson : OutputFormat::kTable;
}

bool AskOnTerminal(const std::string& question) {
  if (isatty(STDIN_FILENO) == 0) return false;
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

Outcome List(const AdminClient& daemon, const Flags& flags) {
  if (flags.limit < 0 || flags.limit > UINT32_MAX) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("--limit ", flags.limit, ": expected 0 to ", UINT32_MAX));
  }
  return ListCommand(daemon, flags.key, flags.purge.cache_namespace,
                     static_cast<uint32_t>(flags.limit), FormatOf(flags));
}

// Sets `duration` to what the option says, if it says anything.
absl::Status SetDuration(absl::string_view option, const std::string& text,
                         absl::Duration& duration) {
  if (text.empty()) return absl::OkStatus();
  if (ParseDurationText(text, &duration)) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(option, " ", text,
                                ": expected a duration like 90m, 12h or 7d"));
}

Outcome Purge(const AdminClient& daemon, const Flags& flags) {
  PurgeOptions options = flags.purge;
  RETURN_IF_ERROR(
      SetDuration("--older-than", flags.older_than, options.older_than));
  return PurgeCommand(daemon, options, AskOnTerminal, FormatOf(flags));
}

Outcome Tokens(const AdminClient& daemon, const Flags& flags) {
  if (flags.action == "ls") return TokensCommand(daemon, FormatOf(flags));
  if ((flags.action == "revoke" || flags.action == "add") &&
      flags.token.name.empty()) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("tokens ", flags.action,
                     ": no NAME was given, expected the name of the token"));
  }
  if (flags.action == "revoke")
    return RevokeTokenCommand(daemon, flags.token.name, FormatOf(flags));
  if (flags.action == "add") {
    TokenOptions options = flags.token;
    RETURN_IF_ERROR(SetDuration("--for", flags.token_life, options.life));
    return AddTokenCommand(daemon, options, FormatOf(flags));
  }
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("tokens: found \"", flags.action,
                                "\", expected ls, add or revoke"));
}

Outcome Keys(const AdminClient& daemon, const Flags& flags) {
  if (flags.key_action == "list") return KeysCommand(daemon, FormatOf(flags));
  if (flags.key_action == "rotate") {
    return RotateKeyCommand(daemon, flags.purge.cache_namespace,
                            FormatOf(flags));
  }
  if (flags.key_action == "revoke")
    return RevokeKeyCommand(daemon, flags.key, flags.unknown, FormatOf(flags));
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("keys: found \"", flags.key_action,
                                "\", expected list, rotate or revoke"));
}

// A reason where there is one, for docs/errors.md; else the status code.
std::string ErrorText(const absl::Status& status) {
  const std::optional<ErrorReason> reason = ReasonOf(status);
  return absl::StrCat(reason.has_value()
                          ? std::string(ReasonName(*reason))
                          : absl::StatusCodeToString(status.code()),
                      ": ", status.message());
}

// One line that is written over on a terminal; nothing elsewhere.
void TellProgress(const std::string& line) {
  if (isatty(STDERR_FILENO) == 1) std::cerr << "\r\x1b[K" << line << std::flush;
}

// The commands, each with its function and what is read for it.
class Program {
 public:
  Program()
      : line_({.program = "compilectl",
               .what = "Looks at a kiln daemon and tells it what to do.",
               .footer = kFooter,
               .version = absl::StrCat("compilectl ", kVersion)}) {
    Arguments& all = line_.arguments();
    all.Option(
        "--socket", flags_.socket,
        absl::StrCat("the daemon's Unix socket [", DefaultSocket(), "]"));
    all.Option("--tcp", flags_.tcp, "host:port instead of a socket");
    flags_.public_keys_hex = Environment("KILN_PUBLIC_KEY");
    all.Option("--public-key", flags_.public_keys_hex,
               "the daemon's key, for --tcp: another daemon is refused");
    flags_.tls = {.ca = Environment("KILN_TLS_CA"),
                  .certificate = Environment("KILN_TLS_CERTIFICATE"),
                  .key = Environment("KILN_TLS_KEY"),
                  .token_file = Environment("KILN_TOKEN_FILE")};
    all.Option("--tls-ca", flags_.tls.ca, "who signs daemons' certificates");
    all.Option("--tls-certificate", flags_.tls.certificate,
               "your own, for --tcp");
    all.Option("--tls-key", flags_.tls.key, "of your certificate");
    all.Option("--token-file", flags_.tls.token_file,
               "with your token, for --tcp");
    all.Option("--timeout", flags_.timeout_seconds,
               "seconds to wait for an answer");
    all.Choice("-o,--output", flags_.format, {"table", "json"},
               "for people or for programs");
    AddDaemonCommands();
    AddCacheCommands();
    AddPurge();
    AddMaintenance();
    AddPins();
    AddTokens();
    AddKeys();
    AddLocalCommands();
  }

  int Run(int argc, char** argv) {
    if (const std::optional<int> end = line_.Parse(argc, argv)) return *end;
    const absl::Status bounded = CheckTimeout(flags_.timeout_seconds);
    const Outcome outcome =
        bounded.ok() ? run_.at(line_.command())() : Outcome(bounded);
    if (outcome.ok()) {
      std::cout << *outcome;
      return anything_bad_ ? 1 : 0;
    }
    std::cerr << "compilectl: " << ErrorText(outcome.status()) << "\n";
    return absl::IsInvalidArgument(outcome.status()) ? 2 : 1;
  }

 private:
  using WithDaemon = std::function<Outcome(const AdminClient& daemon)>;

  Arguments& Add(const std::string& name, const std::string& help,
                 std::function<Outcome()> run) {
    run_[name] = std::move(run);
    return line_.AddCommand(name, help);
  }

  Arguments& AddWithDaemon(const std::string& name, const std::string& help,
                           WithDaemon run) {
    return Add(name, help, [this, run = std::move(run)]() -> Outcome {
      ASSIGN_OR_RETURN(const AdminClient daemon, Connect(flags_));
      return run(daemon);
    });
  }

  void AddDaemonCommands() {
    AddWithDaemon("stats", "counters since the start", [this](auto& daemon) {
      return StatsCommand(daemon, FormatOf(flags_));
    });
    AddWithDaemon("jobs", "compiles that wait or run", [this](auto& daemon) {
      return JobsCommand(daemon, FormatOf(flags_));
    });
    AddWithDaemon("workers", "worker processes", [this](auto& daemon) {
      return WorkersCommand(daemon, FormatOf(flags_));
    });
    AddQuarantine();
    Arguments& tune = AddWithDaemon(
        "tune", "measure a graph's kernels, keep the winners",
        [this](auto& daemon) {
          return TuneCommand(daemon, flags_.tune, FormatOf(flags_));
        });
    tune.Word("GRAPH", flags_.tune.subject, Arguments::Due::kRequired,
              "a corpus file FILE.jsonl[:CASE]");
    tune.Option("--device", flags_.tune.device, "cpu or cuda");
    tune.Option("--arch", flags_.tune.arch, "sm_90, x86-64-v3");
    AddWithDaemon("drain", "finish what runs, then end", [this](auto& daemon) {
      return DrainCommand(daemon, FormatOf(flags_));
    });
  }

  void AddQuarantine() {
    Arguments& quarantine = AddWithDaemon(
        "quarantine", "jobs refused since they ended workers",
        [this](auto& daemon) {
          return QuarantineCommand(daemon, flags_.clear, flags_.clear_all,
                                   FormatOf(flags_));
        });
    quarantine.Option("--clear", flags_.clear,
                      "try jobs again whose key begins so");
    quarantine.Flag("--clear-all", flags_.clear_all, "try all again");
  }

  void AddCacheCommands() {
    Arguments& ls =
        AddWithDaemon("ls", "what the cache holds",
                      [this](auto& daemon) { return List(daemon, flags_); });
    ls.Word("KEY", flags_.key, Arguments::Due::kOptional,
            "first digits of a key");
    ls.Option("--limit", flags_.limit, "entries at most; 0: all");
    ls.Option("--namespace", flags_.purge.cache_namespace, "of this one alone");
    Arguments& show = AddWithDaemon(
        "show", "one entry: plan, kernels, sources", [this](auto& daemon) {
          return ShowCommand(daemon, flags_.key, flags_.purge.cache_namespace,
                             flags_.trace     ? ShowWhat::kTrace
                             : flags_.sources ? ShowWhat::kSources
                             : flags_.kernels ? ShowWhat::kKernels
                                              : ShowWhat::kPlan,
                             FormatOf(flags_));
        });
    show.Word("KEY", flags_.key, Arguments::Due::kRequired,
              "first digits of a key");
    show.Option("--namespace", flags_.purge.cache_namespace,
                "of this one alone");
    show.Flag("--kernels", flags_.kernels, "the text of each kernel");
    show.Flag("--sources", flags_.sources, "the source of each unit");
    show.Flag("--trace", flags_.trace,
              "its compile and its steps, for Perfetto and Chrome's tracing");
    Arguments& explain = AddWithDaemon(
        "explain", "why is this not in the cache?", [this](auto& daemon) {
          return ExplainCommand(daemon, flags_.explain, FormatOf(flags_));
        });
    explain.Word("KEY|GRAPH", flags_.explain.subject, Arguments::Due::kRequired,
                 "a key, or a corpus file FILE.jsonl[:CASE]");
    explain.Option("--device", flags_.explain.device, "cpu or cuda");
    explain.Option("--arch", flags_.explain.arch, "sm_90, x86-64-v3");
    explain.Option("--namespace", flags_.explain.cache_namespace,
                   "of this one alone; of a graph: whose it is (default)");
  }

  void AddPurge() {
    Arguments& purge =
        AddWithDaemon("purge", "remove entries",
                      [this](auto& daemon) { return Purge(daemon, flags_); });
    purge.Word("KEY", flags_.purge.key_prefix, Arguments::Due::kOptional,
               "first digits of keys");
    purge.Option("--older-than", flags_.older_than,
                 "not used for this long: 90m, 12h, 7d");
    purge.Option("--device", flags_.purge.device, "cpu, cuda or sm_90");
    purge.Option("--namespace", flags_.purge.cache_namespace,
                 "of this one alone");
    purge.Flag("--all", flags_.purge.all,
               "everything, object code of units too");
    purge.Flag("--dry-run", flags_.purge.dry_run, "only say what");
    purge.Flag("--yes", flags_.purge.yes, "do not ask");
  }

  void AddMaintenance() {
    const auto add = [this](const std::string& name, const std::string& help,
                            MaintainTask task) {
      AddWithDaemon(name, help, [this, task](auto& daemon) {
        return Maintain(daemon, task);
      }).Flag("--stop", flags_.stop, "end the one that is under way");
    };
    add("scrub", "read and verify all records, drop damaged ones",
        MaintainTask::kScrub);
    add("verify", "the same, and change nothing; 1 when anything is unsound",
        MaintainTask::kVerify);
    add("compact", "rewrite the files without what was deleted",
        MaintainTask::kCompact);
  }

  Outcome Maintain(const AdminClient& daemon, MaintainTask task) {
    if (flags_.stop) return StopMaintainCommand(daemon, task, FormatOf(flags_));
    absl::StatusOr<MaintainOutcome> outcome =
        MaintainCommand(daemon, task, TellProgress, FormatOf(flags_));
    TellProgress("");
    RETURN_IF_ERROR(outcome.status());
    anything_bad_ = outcome->left_unsound;
    return std::move(outcome->text);
  }

  void AddPins() {
    for (const bool unpin : {false, true}) {
      Arguments& pin = AddWithDaemon(
          unpin ? "unpin" : "pin",
          unpin ? "let entries go again when the cache is full"
                : "keep entries also when the cache is full",
          [this, unpin](auto& daemon) {
            return PinCommand(daemon, flags_.key, flags_.purge.cache_namespace,
                              unpin, FormatOf(flags_));
          });
      pin.Word("KEY", flags_.key, Arguments::Due::kRequired,
               "first digits of keys");
      pin.Option("--namespace", flags_.purge.cache_namespace,
                 "of this one alone");
    }
  }

  void AddTokens() {
    Arguments& tokens =
        AddWithDaemon("tokens", "who may call over TCP: ls, add, revoke",
                      [this](auto& daemon) { return Tokens(daemon, flags_); });
    tokens.Word("ACTION", flags_.action, Arguments::Due::kOptional,
                "ls, add or revoke");
    tokens.Word("NAME", flags_.token.name, Arguments::Due::kOptional,
                "the token's name");
    tokens.Choice("--role", flags_.token.role,
                  {"reader", "submitter", "publisher", "admin"},
                  "what its holder may do");
    tokens.Option("--namespace", flags_.token.namespaces,
                  "where, default unless named; \"*\": everywhere");
    tokens.Option("--for", flags_.token_life, "how long: 12h, 30d (default)");
  }

  void AddKeys() {
    Arguments& keys =
        AddWithDaemon("keys", "whose signatures count: list, rotate, revoke",
                      [this](auto& daemon) { return Keys(daemon, flags_); });
    keys.Word("ACTION", flags_.key_action, Arguments::Due::kOptional,
              "list, rotate or revoke");
    keys.Word("KEY", flags_.key, Arguments::Due::kOptional,
              "of revoke: the key's id, or the public key");
    keys.Flag("--unknown", flags_.unknown,
              "of revoke: a key that the daemon does not know, in advance");
    keys.Option("--namespace", flags_.purge.cache_namespace,
                "of rotate: of this one alone");
  }

  void AddLocalCommands() {
    Add("doctor", "what is wrong here, and what to type",
        [this] { return Doctor(); })
        .Option("--data-folder", flags_.data_folder,
                "the folder to look at instead of the daemon's own");
    Add("version", "of this program and, where one answers, the daemon",
        [this] { return VersionCommand(Connect(flags_), FormatOf(flags_)); });
    Add("completion", "a completion script for bash or zsh", [this] {
      return CompletionScript(flags_.shell, line_.arguments().LongNames(),
                              line_.Commands());
    }).Word("SHELL", flags_.shell, Arguments::Due::kRequired, "bash or zsh");
  }

  Outcome Doctor() {
    ASSIGN_OR_RETURN(const DaemonAddress address, AddressOf(flags_));
    const std::vector<Finding> findings = Examine(
        {.daemon = address,
         .data_folder = flags_.data_folder,
         .default_data_folder = DefaultDataFolder(),
         .ask_worker = [] { return AskInstalledWorker(WorkerEnvironment()); },
         .from_wheel = IsInWheel(),
         .kilnd = KilndCommand(),
         .starts_itself = IsInWheel() && Environment("KILN_ADDR").empty() &&
                          flags_.tcp.empty()});
    anything_bad_ = AnythingBad(findings);
    return DoctorText(findings, FormatOf(flags_));
  }

  Flags flags_;
  bool anything_bad_ = false;  // doctor or verify found something
  CommandLine line_;
  std::map<std::string, std::function<Outcome()>> run_;
};

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  // An error is a line of ours; gRPC would write others beside it.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return kiln::Program().Run(argc, argv);
}

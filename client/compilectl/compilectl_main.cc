// compilectl: looks at a daemon and tells it what to do. Flags and environment
// are read here only; the commands stand in commands.h and doctor.h.
//
// Exit codes: 0 done, 1 refused or failed, 2 used wrongly.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/compilectl/commands.h"
#include "client/compilectl/completion.h"
#include "client/compilectl/doctor.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 refused or failed, 2 used wrongly.\n"
    "Environment: KILN_SOCKET, the daemon's socket.";

struct Flags {
  std::string socket;
  std::string tcp;
  std::string public_key_hex;
  std::string data_folder;
  std::string format = "table";
  double timeout_seconds = 10;
  std::string key;
  std::string shell;
  std::string older_than;
  uint32_t limit = 0;
  bool kernels = false;
  bool sources = false;
  ExplainOptions explain;
  PurgeOptions purge;
  TuneOptions tune;
};

// What a command gives: the text for standard output, or why there is none.
using Outcome = absl::StatusOr<std::string>;

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
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
  if (flags.tcp.empty()) {
    address.socket = flags.socket;
    return address;
  }
  address.tcp = flags.tcp;
  const std::optional<Digest> raw = Digest::FromHex(flags.public_key_hex);
  if (!raw.has_value()) {
    return MakeError(ErrorReason::kBadOption,
                     "--public-key: 64 hexadecimal digits are due with --tcp");
  }
  ASSIGN_OR_RETURN(address.public_key, PublicKey::FromBytes(raw->bytes()));
  return address;
}

absl::StatusOr<AdminClient> Connect(const Flags& flags) {
  ASSIGN_OR_RETURN(const DaemonAddress address, AddressOf(flags));
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                   OpenDaemonChannel(address));
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

Outcome Purge(const AdminClient& daemon, const Flags& flags) {
  PurgeOptions options = flags.purge;
  std::string age = flags.older_than;
  // Abseil knows no days, and people ask in days.
  if (!age.empty() && age.back() == 'd') {
    double days = 0;
    if (!absl::SimpleAtod(age.substr(0, age.size() - 1), &days)) {
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat("--older-than ", age));
    }
    options.older_than = absl::Hours(24 * days);
  } else if (!age.empty() && !absl::ParseDuration(age, &options.older_than)) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("--older-than ", age,
                                  ": due a duration as 90m, 12h or 7d"));
  }
  return PurgeCommand(daemon, options, AskOnTerminal, FormatOf(flags));
}

Outcome Doctor(const Flags& flags) {
  ASSIGN_OR_RETURN(const DaemonAddress address, AddressOf(flags));
  const std::vector<Finding> findings =
      Examine({.daemon = address,
               .data_folder = flags.data_folder,
               .path = Environment("PATH")});
  const std::string text = DoctorText(findings, FormatOf(flags));
  if (!AnythingBad(findings)) return text;
  std::cout << text;
  return absl::FailedPreconditionError("doctor: something is wrong, see BAD");
}

// The commands, each with its function and what CLI11 shall read for it.
class CommandLine {
 public:
  CommandLine() : app_("Looks at a kiln daemon and tells it what to do.") {
    app_.footer(kFooter);
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.add_option("--socket", flags_.socket, "the daemon's Unix socket")
        ->default_val(DefaultSocket());
    app_.add_option("--tcp", flags_.tcp, "host:port instead of a socket");
    app_.add_option("--public-key", flags_.public_key_hex,
                    "the daemon's key, for --tcp");
    app_.add_option("--timeout", flags_.timeout_seconds,
                    "seconds to wait for an answer")
        ->default_val(10);
    app_.add_option("-o,--output", flags_.format, "table or json")
        ->check(CLI::IsMember({"table", "json"}));
    AddDaemonCommands();
    AddCacheCommands();
    AddLocalCommands();
  }

  int Run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      // The library throws also for --help, with code 0.
      return app_.exit(error) == 0 ? 0 : 2;
    }
    const Outcome outcome = run_();
    if (outcome.ok()) {
      std::cout << *outcome;
      return 0;
    }
    std::cerr << "compilectl: " << outcome.status().message() << "\n";
    return absl::IsInvalidArgument(outcome.status()) ? 2 : 1;
  }

 private:
  using WithDaemon = std::function<Outcome(const AdminClient& daemon)>;

  CLI::App* Add(const std::string& name, const std::string& help,
                std::function<Outcome()> run) {
    CLI::App* command = app_.add_subcommand(name, help);
    command->callback([this, run = std::move(run)] { run_ = run; });
    return command;
  }

  CLI::App* AddWithDaemon(const std::string& name, const std::string& help,
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
    CLI::App* tune = AddWithDaemon(
        "tune", "measure a row kernel, keep the winner", [this](auto& daemon) {
          return TuneCommand(daemon, flags_.tune, FormatOf(flags_));
        });
    tune->add_option("--rows", flags_.tune.rows)->default_val(4096);
    tune->add_option("--columns", flags_.tune.columns)->default_val(1024);
    tune->add_option("--dtype", flags_.tune.dtype)->default_val("float32");
    tune->add_option("--device", flags_.tune.device)->default_val("cpu");
    tune->add_option("--arch", flags_.tune.arch);
    AddWithDaemon("drain", "finish what runs, then end", [this](auto& daemon) {
      return DrainCommand(daemon, FormatOf(flags_));
    });
  }

  void AddCacheCommands() {
    CLI::App* ls =
        AddWithDaemon("ls", "what the cache holds", [this](auto& daemon) {
          return ListCommand(daemon, flags_.key, flags_.limit,
                             FormatOf(flags_));
        });
    ls->add_option("KEY", flags_.key, "first digits of a key");
    ls->add_option("--limit", flags_.limit, "entries at most; 0: all");
    CLI::App* show = AddWithDaemon(
        "show", "one entry: plan, kernels, sources", [this](auto& daemon) {
          return ShowCommand(daemon, flags_.key,
                             flags_.sources   ? ShowWhat::kSources
                             : flags_.kernels ? ShowWhat::kKernels
                                              : ShowWhat::kPlan,
                             FormatOf(flags_));
        });
    show->add_option("KEY", flags_.key, "first digits of a key")->required();
    show->add_flag("--kernels", flags_.kernels, "the text of each kernel");
    show->add_flag("--sources", flags_.sources, "the source of each unit");
    CLI::App* explain = AddWithDaemon(
        "explain", "why is this not in the cache?", [this](auto& daemon) {
          return ExplainCommand(daemon, flags_.explain, FormatOf(flags_));
        });
    explain
        ->add_option("KEY|GRAPH", flags_.explain.subject,
                     "a key, or a corpus file FILE.jsonl[:CASE]")
        ->required();
    explain->add_option("--device", flags_.explain.device, "cpu or cuda");
    explain->add_option("--arch", flags_.explain.arch, "sm_90, x86-64-v3");
    AddPurge();
  }

  void AddPurge() {
    CLI::App* purge =
        AddWithDaemon("purge", "remove entries",
                      [this](auto& daemon) { return Purge(daemon, flags_); });
    purge->add_option("KEY", flags_.purge.key_prefix, "first digits of keys");
    purge->add_option("--older-than", flags_.older_than,
                      "not used for this long: 90m, 12h, 7d");
    purge->add_option("--device", flags_.purge.device, "cpu, cuda or sm_90");
    purge->add_flag("--all", flags_.purge.all, "everything");
    purge->add_flag("--dry-run", flags_.purge.dry_run, "only say what");
    purge->add_flag("--yes", flags_.purge.yes, "do not ask");
  }

  void AddLocalCommands() {
    CLI::App* doctor = Add("doctor", "what is wrong here, and what to type",
                           [this] { return Doctor(flags_); });
    doctor->add_option("--data-folder", flags_.data_folder, "kilnd's folder")
        ->default_val(DefaultDataFolder());
    Add("version", "of this program and the daemon",
        [this] { return VersionCommand(Connect(flags_), FormatOf(flags_)); });
    Add("completion", "a completion script for bash or zsh",
        [this] { return CompletionScript(flags_.shell, OptionsOfCommands()); })
        ->add_option("SHELL", flags_.shell, "bash or zsh")
        ->required();
  }

  std::vector<CommandOptions> OptionsOfCommands() {
    std::vector<CommandOptions> all;
    for (const CLI::App* command :
         app_.get_subcommands([](CLI::App*) { return true; })) {
      std::vector<std::string> names = {"--socket", "--output"};
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) {
          names.push_back("--" + name);
        }
      }
      all.emplace_back(command->get_name(), std::move(names));
    }
    return all;
  }

  Flags flags_;
  CLI::App app_;
  std::function<Outcome()> run_;
};

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::CommandLine().Run(argc, argv); }

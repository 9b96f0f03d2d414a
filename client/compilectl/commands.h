#ifndef KILN_CLIENT_COMPILECTL_COMMANDS_H_
#define KILN_CLIENT_COMPILECTL_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/compilectl/answer.h"
#include "client/compilectl/case_request.h"
#include "client/daemon_channel.h"

// The commands of compilectl, one function each. A function asks the daemon and
// gives what goes to standard output, as a table or as JSON. Errors are those
// of AdminService, and UNAVAILABLE when no daemon is there.

namespace kiln {

// A daemon, as its owner sees it. Thread-compatible.
class AdminClient {
 public:
  explicit AdminClient(std::shared_ptr<grpc::Channel> channel,
                       absl::Duration timeout)
      : channel_(std::move(channel)), timeout_(timeout) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  absl::Duration timeout() const { return timeout_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  absl::Duration timeout_;  // of each call
};

// Counters, uptime, version.
absl::StatusOr<std::string> StatsCommand(const AdminClient& daemon,
                                         OutputFormat format);

// JOB KEY STATE STAGE AGE WAITERS GRAPH.
absl::StatusOr<std::string> JobsCommand(const AdminClient& daemon,
                                        OutputFormat format);

// WORKER PID STATE KEY JOBS RESTARTS MEMORY SANDBOX, then the toolchains.
absl::StatusOr<std::string> WorkersCommand(const AdminClient& daemon,
                                           OutputFormat format);

// KEY LEFT CALLER GRAPH WHY of jobs that ended two workers; those whose key begins
// with `clear_prefix`, or all, may be tried again before. NOT_FOUND when no key
// begins so.
absl::StatusOr<std::string> QuarantineCommand(const AdminClient& daemon,
                                              const std::string& clear_prefix,
                                              bool clear_all,
                                              OutputFormat format);

// KEY NAMESPACE TARGET GRAPH KERNELS SIZE AGE USED.
absl::StatusOr<std::string> ListCommand(const AdminClient& daemon,
                                        const std::string& key_prefix,
                                        const std::string& cache_namespace,
                                        uint32_t limit, OutputFormat format);

enum class ShowWhat { kPlan, kKernels, kSources, kTrace };

// One entry: its key's parts, guards, counters, and `what` of its plan. kTrace
// is JSON in either format (show_trace.h).
absl::StatusOr<std::string> ShowCommand(const AdminClient& daemon,
                                        const std::string& key_prefix,
                                        const std::string& cache_namespace,
                                        ShowWhat what, OutputFormat format);

// The nearest entry, and the first part of the key that differs. The subject may
// also be a key's first digits.
absl::StatusOr<std::string> ExplainCommand(const AdminClient& daemon,
                                           const CaseOptions& options,
                                           OutputFormat format);

struct PurgeOptions {
  std::string key_prefix;
  absl::Duration older_than;    // by last use; zero: of any age
  std::string device;           // "cpu", "cuda", "sm_90"
  std::string cache_namespace;  // empty: of all
  bool all = false;
  bool dry_run = false;
  bool yes = false;  // never asks
};

// A purge of more than this is asked about.
inline constexpr uint64_t kBigPurgeEntries = 20;
inline constexpr uint64_t kBigPurgeBytes = uint64_t{100} << 20;

// Removes entries. `confirm` is asked before a big purge, with what it would
// take; it says whether to go on. A function, since only main may read the
// terminal.
//
// INVALID_ARGUMENT when nothing is chosen; ABORTED when `confirm` says no.
absl::StatusOr<std::string> PurgeCommand(
    const AdminClient& daemon, const PurgeOptions& options,
    const std::function<bool(const std::string& question)>& confirm,
    OutputFormat format);

// Long work on the whole cache, which goes on while the daemon serves.
enum class MaintainTask {
  kScrub,    // read and verify all records, drop what is damaged
  kVerify,   // the same, and change nothing
  kCompact,  // rewrite the files without what was deleted
};

struct MaintainOutcome {
  std::string text;
  bool left_unsound = false;  // a verification found something
};

// Begins the task, or joins it when it is under way, and waits for its end; `tell`
// gets how it goes, a line each half second.
absl::StatusOr<MaintainOutcome> MaintainCommand(
    const AdminClient& daemon, MaintainTask task,
    const std::function<void(const std::string& line)>& tell,
    OutputFormat format);

// Ends the task that is under way. NOT_FOUND when it is not.
absl::StatusOr<std::string> StopMaintainCommand(const AdminClient& daemon,
                                                MaintainTask task,
                                                OutputFormat format);

// Entries whose key begins so stay when the cache is full, or no longer do.
absl::StatusOr<std::string> PinCommand(const AdminClient& daemon,
                                       const std::string& key_prefix,
                                       const std::string& cache_namespace,
                                       bool unpin, OutputFormat format);

// Measures the configurations of the graph's kernels; each winner is used from
// now on.
absl::StatusOr<std::string> TuneCommand(const AdminClient& daemon,
                                        const CaseOptions& options,
                                        OutputFormat format);

struct TokenOptions {
  std::string name;
  std::string role = "submitter";
  std::vector<std::string> namespaces = {"default"};
  absl::Duration life = absl::Hours(24 * 30);
};

// Makes a token for callers over TCP: the token alone, for a file. It is told this
// once.
absl::StatusOr<std::string> AddTokenCommand(const AdminClient& daemon,
                                            const TokenOptions& options,
                                            OutputFormat format);

// The token is refused from now on.
absl::StatusOr<std::string> RevokeTokenCommand(const AdminClient& daemon,
                                               const std::string& name,
                                               OutputFormat format);

// NAME ROLE NAMESPACES MADE EXPIRES.
absl::StatusOr<std::string> TokensCommand(const AdminClient& daemon,
                                          OutputFormat format);

// ID NAMESPACE STATE MADE REVOKED PUBLIC KEY.
absl::StatusOr<std::string> KeysCommand(const AdminClient& daemon,
                                        OutputFormat format);

// A new key signs from now on, in one namespace or, for the empty name, in all
// that have none of their own: the public key alone, for a configuration.
absl::StatusOr<std::string> RotateKeyCommand(const AdminClient& daemon,
                                             const std::string& cache_namespace,
                                             OutputFormat format);

// What the key signed is refused from now on. `unknown`: also a key that the
// daemon does not know; else that is NOT_FOUND.
absl::StatusOr<std::string> RevokeKeyCommand(const AdminClient& daemon,
                                             const std::string& key_hex,
                                             bool unknown, OutputFormat format);

// Versions of this program and of the daemon, with the public key that it says is
// its own. Without a daemon that answers it says why that one's is unknown, and is
// no error: this program's is what most ask for.
absl::StatusOr<std::string> VersionCommand(
    const absl::StatusOr<AdminClient>& daemon, OutputFormat format);

// Finishes what runs, takes nothing new, ends.
absl::StatusOr<std::string> DrainCommand(const AdminClient& daemon,
                                         OutputFormat format);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_COMMANDS_H_

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

// The commands of compilectl, one function each. A function asks the daemon and returns
// the text for standard output, a table or JSON. Errors: those of AdminService;
// UNAVAILABLE if there is no daemon.

namespace kiln {

// A connection to a daemon's AdminService. Thread-compatible.
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

// KEY LEFT CALLER GRAPH WHY of jobs that are refused because they killed two workers.
// With `clear_prefix` or `clear_all`, first lets jobs be tried again: those whose key
// begins with the prefix, or all. NOT_FOUND if no key begins with it.
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

// One entry: the parts of its key, its guards and counters, and the part of its plan that
// `what` selects. kTrace is always JSON (show_trace.h).
absl::StatusOr<std::string> ShowCommand(const AdminClient& daemon,
                                        const std::string& key_prefix,
                                        const std::string& cache_namespace,
                                        ShowWhat what, OutputFormat format);

// The entry with the most similar key, and the first part of the key that differs. The
// subject may also be the first digits of a key.
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
  bool yes = false;  // do not ask for confirmation
};

// A purge of more than this needs confirmation.
inline constexpr uint64_t kBigPurgeEntries = 20;
inline constexpr uint64_t kBigPurgeBytes = uint64_t{100} << 20;

// Removes entries. Before a big purge it calls `confirm` with a question that says how
// much would be removed, and goes on if that returns true.
//
// INVALID_ARGUMENT if the options select nothing; ABORTED if `confirm` returns false.
absl::StatusOr<std::string> PurgeCommand(
    const AdminClient& daemon, const PurgeOptions& options,
    const std::function<bool(const std::string& question)>& confirm,
    OutputFormat format);

// A long task over the whole cache. The daemon goes on serving meanwhile.
enum class MaintainTask {
  kScrub,    // read and verify all records, drop what is damaged
  kVerify,   // the same, and change nothing
  kCompact,  // rewrite the files without what was deleted
};

struct MaintainOutcome {
  std::string text;
  bool left_unsound = false;  // a verification found something
};

// Starts the task, or joins it if it is running, and waits for its end. Calls `tell` with
// a line about its progress every half second.
absl::StatusOr<MaintainOutcome> MaintainCommand(
    const AdminClient& daemon, MaintainTask task,
    const std::function<void(const std::string& line)>& tell,
    OutputFormat format);

// Stops the running task. NOT_FOUND if it is not running.
absl::StatusOr<std::string> StopMaintainCommand(const AdminClient& daemon,
                                                MaintainTask task,
                                                OutputFormat format);

// Pins the entries whose key begins with `key_prefix`, so that they are not evicted, or
// unpins them.
absl::StatusOr<std::string> PinCommand(const AdminClient& daemon,
                                       const std::string& key_prefix,
                                       const std::string& cache_namespace,
                                       bool unpin, OutputFormat format);

// Measures the configurations of the graph's kernels. The winners are used from then on.
absl::StatusOr<std::string> TuneCommand(const AdminClient& daemon,
                                        const CaseOptions& options,
                                        OutputFormat format);

struct TokenOptions {
  std::string name;
  std::string role = "submitter";
  std::vector<std::string> namespaces = {"default"};
  absl::Duration life = absl::Hours(24 * 30);
};

// Makes a token for callers over TCP. Returns only the token, to write to a file. It
// cannot be shown again.
absl::StatusOr<std::string> AddTokenCommand(const AdminClient& daemon,
                                            const TokenOptions& options,
                                            OutputFormat format);

// Revokes a token: it is refused from then on.
absl::StatusOr<std::string> RevokeTokenCommand(const AdminClient& daemon,
                                               const std::string& name,
                                               OutputFormat format);

// NAME ROLE NAMESPACES MADE EXPIRES.
absl::StatusOr<std::string> TokensCommand(const AdminClient& daemon,
                                          OutputFormat format);

// ID NAMESPACE STATE MADE REVOKED PUBLIC KEY.
absl::StatusOr<std::string> KeysCommand(const AdminClient& daemon,
                                        OutputFormat format);

// Makes a new signing key, for one namespace or, if the name is empty, for all that have
// none of their own. Returns only the public key, to put into a configuration.
absl::StatusOr<std::string> RotateKeyCommand(const AdminClient& daemon,
                                             const std::string& cache_namespace,
                                             OutputFormat format);

// Revokes a key: what it signed is refused from then on. NOT_FOUND if the daemon does
// not know the key, unless `unknown` is set.
absl::StatusOr<std::string> RevokeKeyCommand(const AdminClient& daemon,
                                             const std::string& key_hex,
                                             bool unknown, OutputFormat format);

// The versions of this program and of the daemon, and the daemon's public key. If no
// daemon answers, the text says why; this is not an error.
absl::StatusOr<std::string> VersionCommand(
    const absl::StatusOr<AdminClient>& daemon, OutputFormat format);

// Tells the daemon to finish the running jobs, accept no new ones and exit.
absl::StatusOr<std::string> DrainCommand(const AdminClient& daemon,
                                         OutputFormat format);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_COMMANDS_H_

#ifndef KILN_CLIENT_COMPILECTL_COMMANDS_H_
#define KILN_CLIENT_COMPILECTL_COMMANDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

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

// WORKER PID STATE KEY JOBS RESTARTS MEMORY, then the toolchains.
absl::StatusOr<std::string> WorkersCommand(const AdminClient& daemon,
                                           OutputFormat format);

// KEY TARGET GRAPH KERNELS SIZE AGE USED.
absl::StatusOr<std::string> ListCommand(const AdminClient& daemon,
                                        const std::string& key_prefix,
                                        uint32_t limit, OutputFormat format);

enum class ShowWhat { kPlan, kKernels, kSources };

// One entry: its key's parts, guards, counters, and `what` of its plan.
absl::StatusOr<std::string> ShowCommand(const AdminClient& daemon,
                                        const std::string& key_prefix,
                                        ShowWhat what, OutputFormat format);

// The nearest entry, and the first part of the key that differs. The subject may
// also be a key's first digits.
absl::StatusOr<std::string> ExplainCommand(const AdminClient& daemon,
                                           const CaseOptions& options,
                                           OutputFormat format);

struct PurgeOptions {
  std::string key_prefix;
  absl::Duration older_than;  // by last use; zero: of any age
  std::string device;         // "cpu", "cuda", "sm_90"
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

// Measures the configurations of the graph's kernels; each winner is used from
// now on.
absl::StatusOr<std::string> TuneCommand(const AdminClient& daemon,
                                        const CaseOptions& options,
                                        OutputFormat format);

// Versions of this program and of the daemon, if one is there, with the public
// key that it says is its own.
absl::StatusOr<std::string> VersionCommand(
    const absl::StatusOr<AdminClient>& daemon, OutputFormat format);

// Finishes what runs, takes nothing new, ends.
absl::StatusOr<std::string> DrainCommand(const AdminClient& daemon,
                                         OutputFormat format);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_COMMANDS_H_

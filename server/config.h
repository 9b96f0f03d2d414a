#ifndef KILN_SERVER_CONFIG_H_
#define KILN_SERVER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln {

// All that can be set of a daemon. Filled by defaults, then a TOML file, then
// flags (in kilnd_main only); checked once, then handed down and never changed.
// deploy/kilnd.example.toml shows every word.
struct Config {
  // [listen]
  // Path of the Unix socket; only its owner can connect. Empty: no socket.
  std::string socket;
  // "127.0.0.1:7117"; empty, the default: no TCP. Whoever reaches the port may
  // compile: for loopback and private networks until there is mTLS.
  std::string tcp;
  // The largest message taken, in bytes: a larger one is TOO_LARGE. One of over
  // twice as much gRPC refuses unread, with a bare RESOURCE_EXHAUSTED that our
  // clients tell as TOO_LARGE. Too low
  // refuses big graphs; too high lets one caller fill the memory. Graphs of
  // 10,000 nodes take 4 MiB.
  int64_t max_message_bytes = int64_t{64} << 20;
  // Compile calls that may wait at once; more are refused with QUEUE_FULL.
  // Each costs a thread with a small stack while it waits.
  int64_t max_waiting_calls = 1024;
  // How long a call waits for a caller that does not read what it is sent; then
  // it is cancelled. Too low cuts callers off that are stopped for a moment,
  // too high lets them sit on a thread and their artifact.
  absl::Duration write_timeout = absl::Seconds(30);
  // The daemon drains and ends when nobody has asked it anything for so long;
  // zero, the default: never. Too short costs users a start of it and its
  // memory tier, too long leaves it behind.
  absl::Duration idle_exit = absl::ZeroDuration();

  // [storage]
  // Database, signing key and the workers' scratch folders. Made with 0700.
  std::string data_folder;
  // Bytes of artifacts kept; the least recently used go first.
  int64_t cache_budget_bytes = int64_t{10} << 30;
  // Bytes of artifacts kept in memory too, for hits that touch no disk.
  int64_t memory_tier_bytes = int64_t{16} << 20;
  // Bytes left free on the database's disk: with less nothing is stored, and
  // what is compiled is answered all the same.
  int64_t min_free_bytes = int64_t{64} << 20;

  // [workers]
  std::string worker_program;            // kiln-worker; empty: beside kilnd
  std::vector<std::string> worker_args;  // handed to it as they are
  std::vector<std::string> worker_env;   // "NAME=value", beside the base set
  int64_t worker_count = 0;              // 0: one a core
  // Wall time of one request to a worker. Too low kills honest work, too high
  // lets a hung worker sit on its job.
  absl::Duration worker_timeout = absl::Seconds(120);
  // Processor time of one request, summed over the worker's threads.
  absl::Duration worker_cpu_limit = absl::Seconds(600);
  // What one worker, and each compiler it starts, may write in memory
  // (RLIMIT_DATA); 0: no limit.
  int64_t worker_memory_bytes = int64_t{16} << 30;

  // [jobs]
  int64_t queue_limit = 256;  // jobs that wait for a runner
  // How long a job that ended two workers is refused.
  absl::Duration poison_time = absl::Minutes(5);
  // How long a drain waits for jobs under way.
  absl::Duration drain_timeout = absl::Seconds(30);

  // [log]
  std::string log_format = "text";  // "text", "json"
  std::string log_level = "info";   // "info", "warning", "error"
};

// Sets in `config` what `toml` names. `where` is the file's name, for messages.
//
// BAD_OPTION: no TOML (with line and column), an unknown table or word, a value
// of the wrong type or not a duration ("90s", "5m").
absl::Status ReadConfigText(absl::string_view toml, absl::string_view where,
                            Config& config);

// The same from a file. BAD_OPTION also when it can't be read, is no regular
// file or has more than 1 MiB.
absl::Status ReadConfigFile(const std::string& path, Config& config);

// BAD_OPTION when a value is out of its range or two contradict.
absl::Status CheckConfig(const Config& config);

// The whole configuration as TOML that ReadConfigText takes.
std::string ConfigText(const Config& config);

}  // namespace kiln

#endif  // KILN_SERVER_CONFIG_H_

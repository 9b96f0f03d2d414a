#ifndef KILN_SERVER_CONFIG_H_
#define KILN_SERVER_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/access/access_rule.h"

namespace kiln {

// All that can be set of a daemon. Filled by defaults, then a TOML file, then
// flags (in kilnd_main only); checked once, then handed down and never changed.
// deploy/kilnd.example.toml shows every word.
struct Config {
  // [listen]
  // Path of the Unix socket; its owner can connect, and whom `access` names.
  // Empty: no socket.
  std::string socket;
  // "0.0.0.0:7117"; empty, the default: no TCP. It takes TLS files, or tcp_plain.
  std::string tcp;
  // Serves `tcp`, which is a loopback address then, without TLS: compiles and
  // health alone, for tests and first steps. Whoever reaches the port may compile.
  bool tcp_plain = false;
  // PEM files of the network door; see TlsFiles.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  // The largest message taken, in bytes: a larger one is TOO_LARGE. One of over
  // twice as much gRPC refuses unread, with a bare RESOURCE_EXHAUSTED that our
  // clients tell as TOO_LARGE. Too low
  // refuses big graphs; too high lets one caller fill the memory. Graphs of
  // 10,000 nodes take 4 MiB.
  int64_t max_message_bytes = int64_t{64} << 20;
  // Compile calls that may wait at once, of which a caller gets half at most and a
  // namespace three quarters (fair_share.h); more are refused with QUEUE_FULL. So
  // 10,000 ranks of one caller have room. Each costs some 20 KiB while it waits,
  // its connection included.
  int64_t max_waiting_calls = 24576;
  // How often a second an address (of IPv6 a /64) may connect over the network, once it
  // has done so 4,096 times; more often is closed before the handshake, which costs
  // about a thousandth of a core's second. Too low keeps many ranks behind one address
  // out when they come again.
  int64_t peer_handshakes_a_second = 64;
  // Lookup and Describe calls whose answers were not taken yet, of which a caller gets
  // half at most; more are refused with QUEUE_FULL. Too low refuses ranks that all
  // start at once; each costs some 20 KiB.
  int64_t max_lookups = 24576;
  // Bytes of their answers, and as many again of hits in Compile, and of answers to
  // admins; of each a caller gets half at most, more is QUEUE_FULL. Bytes of one artifact count for each of
  // its calls. Too low refuses ranks that all get large artifacts at once.
  int64_t max_answer_bytes = int64_t{1} << 30;
  // How long a call waits for a caller that does not read what it is sent; then
  // it is cancelled. Too low cuts callers off that are stopped for a moment,
  // too high lets them sit on their place and their artifact.
  absl::Duration write_timeout = absl::Seconds(30);
  // The daemon drains and ends when nobody has asked it anything for so long;
  // zero, the default: never. Too short costs users a start of it and its
  // memory tier, too long leaves it behind.
  absl::Duration idle_exit = absl::ZeroDuration();

  // [storage]
  // Database, signing key and the workers' scratch folders. Made with 0700.
  std::string data_folder;
  // Bytes of entries and units kept on disk. What is cheapest to compile again for
  // its size goes first, and of that what was used longest ago.
  int64_t cache_budget_bytes = int64_t{10} << 30;
  // Entries kept; 0: as many as there is room for.
  int64_t cache_budget_entries = 0;
  // What was not used for so long goes; zero: nothing for its age.
  absl::Duration cache_unused = absl::ZeroDuration();
  // "team-a=1073741824": bytes of the entries of a namespace; "*=..." for each that
  // is not named.
  std::vector<std::string> namespace_budgets;
  // How often the disk is told to keep what was written: what a power cut may lose.
  // Zero: with each write.
  absl::Duration sync_every = absl::Seconds(1);
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
  // The weakest jail that will do: "limits", "landlock", "namespaces"; where the
  // machine grants less the daemon does not start. "strongest": what its first
  // workers have, the strongest that the machine grants; one that would get less
  // later is not taken.
  std::string worker_sandbox = "strongest";
  // Folders that workers may read besides the system's programs and libraries
  // and those that KILN_HOST_CC, KILN_NVRTC and KILN_CUDA_LIBRARY_PATH name.
  std::vector<std::string> worker_readable;

  // [far]: a store that several daemons share
  bool has_far() const { return !far_addresses.empty() || !far_peer.empty(); }
  // "redis.example:6379": one Redis, or some nodes of a cluster. Empty, the
  // default: none.
  std::vector<std::string> far_addresses;
  // "kilnd-1.example:7117": another daemon's TLS door, instead of `far_addresses`.
  // It takes far_tls_ca, and a certificate or far_token_file. Empty: none.
  std::string far_peer;
  // PEM files. The CA of the servers' certificates: with it TLS is spoken, without
  // it none. What the daemon shows to the servers; empty: nothing.
  std::string far_tls_ca;
  std::string far_tls_certificate;
  std::string far_tls_key;
  // AUTH: the user (empty: the default one), and a file, mode 0600, whose first
  // line is the password. No file: no AUTH.
  std::string far_user;
  std::string far_password_file;
  // What is shown to the peer: a file, mode 0600, whose first line is a token.
  std::string far_token_file;
  // What one look may take. Too little loses hits, and what is too much is waited
  // for by every miss.
  absl::Duration far_budget = absl::Milliseconds(100);
  // How long a job waits at most while another daemon makes the same; then it is
  // compiled here too. Zero: nobody waits, and two daemons that both lack a key
  // compile it twice.
  absl::Duration far_lease_wait = absl::Seconds(60);
  // How long what is written stays there.
  absl::Duration far_ttl = absl::Hours(14 * 24);
  // "team-a=1073741824": bytes of a namespace that this daemon wrote within
  // far_ttl; "*=..." for each that is not named, and for units, which all share.
  // What is beyond is kept near alone.
  std::vector<std::string> far_namespace_budgets;
  // Bytes of records that wait to be written; more are dropped.
  int64_t far_queue_bytes = int64_t{64} << 20;
  // Larger records are neither written nor read.
  int64_t far_max_record_bytes = int64_t{32} << 20;

  // [keys]
  // Public keys of other daemons, 64 hexadecimal digits each, or "team-a:" and
  // those digits: what they signed is served from the far tier too, in every
  // namespace or in that one.
  std::vector<std::string> trusted_keys;

  // [jobs]
  // Jobs of one namespace that wait for a runner, of which a caller gets half at
  // most.
  int64_t queue_limit = 256;
  // How long a job that ended two workers is refused.
  absl::Duration poison_time = absl::Minutes(5);
  // How long a drain waits for jobs under way.
  absl::Duration drain_timeout = absl::Seconds(30);

  // [log]
  std::string log_format = "text";  // "text", "json"
  std::string log_level = "info";   // "info", "warning", "error"

  // [[access]], one table a rule: all that is read again from `file` while the daemon
  // serves.
  std::vector<AccessRule> access;

  // Where all this was read from, absolute; empty: nowhere. No word of it.
  std::string file;
};

// What worker_sandbox says for no level of its own.
inline constexpr absl::string_view kStrongestSandbox = "strongest";

// BAD_OPTION when a value is out of its range or two contradict.
absl::Status CheckConfig(const Config& config);

// By namespace. BAD_OPTION for what is not "NAME=BYTES".
absl::StatusOr<std::map<std::string, int64_t>> ParseNamespaceBudgets(
    const std::vector<std::string>& budgets);

}  // namespace kiln

#endif  // KILN_SERVER_CONFIG_H_

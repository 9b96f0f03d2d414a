#include "server/config.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/base/tcp_address.h"
#include "proto/jail/jail_spec.h"
#include "proto/key/cache_namespace.h"
#include "server/signer.h"

namespace kiln {
namespace {

absl::Status Refuse(absl::string_view where, absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat(where, ": ", what));
}

constexpr int64_t kMaxBytes = int64_t{1} << 50;

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Refuse(
      name, absl::StrCat("found ", value, ", expected ", low, " to ", high));
}

constexpr absl::Duration kLongest = absl::Hours(24 * 3650);

// A duration without an end is a mistake, so every one has a bound.
absl::Status CheckDuration(absl::string_view name, absl::Duration value,
                           absl::Duration low, absl::Duration high = kLongest) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Refuse(name, absl::StrCat("found ", absl::FormatDuration(value),
                                   ", expected ", absl::FormatDuration(low),
                                   " to ", absl::FormatDuration(high)));
}

// What stands at the network's door: TLS, or plain on purpose.
absl::Status CheckNetwork(const Config& c) {
  if (c.tcp.empty()) {
    return c.tcp_plain ? Refuse("tcp_plain", "is set without tcp")
                       : absl::OkStatus();
  }
  RETURN_IF_ERROR(Annotate(CheckTcpAddress(c.tcp, /*least_port=*/1), "tcp"));
  const bool tls = !c.tls_certificate.empty() && !c.tls_key.empty();
  if (tls && !c.tcp_plain) return absl::OkStatus();
  if (tls)
    return Refuse("tcp_plain",
                  "is set together with tls_certificate; set one of them");
  if (!c.tls_certificate.empty() || !c.tls_key.empty())
    return Refuse("tls_certificate, tls_key",
                  "only one of them is set; set both or neither");
  if (c.tcp_plain) return CheckLoopback(c.tcp);
  return Refuse(
      absl::StrCat("tcp ", c.tcp),
      "TCP requires TLS: set tls_certificate and tls_key. For tests and first "
      "steps on a loopback address, set tcp_plain = true (--tcp-plain), which "
      "serves only compiles and health");
}

// A far tier that is another daemon.
absl::Status CheckPeer(const Config& c) {
  if (c.far_peer.empty()) {
    if (c.far_token_file.empty()) return absl::OkStatus();
    return Refuse("token_file", "is set without peer");
  }
  RETURN_IF_ERROR(
      Annotate(CheckTcpAddress(c.far_peer, /*least_port=*/1), "peer"));
  if (!c.far_addresses.empty())
    return Refuse("peer", "is set together with addresses; set one of them");
  if (!c.far_password_file.empty())
    return Refuse("password_file",
                  "is set together with peer, which uses token_file instead");
  if (c.far_tls_ca.empty()) return Refuse("peer", "requires tls_ca");
  if (c.far_token_file.empty() && c.far_tls_certificate.empty())
    return Refuse("peer",
                  "requires token_file, or tls_certificate and tls_key");
  return absl::OkStatus();
}

// The tier that is shared, and whose records are believed there.
absl::Status CheckFar(const Config& c) {
  for (const std::string& address : c.far_addresses)
    RETURN_IF_ERROR(
        Annotate(CheckTcpAddress(address, /*least_port=*/1), "addresses"));
  RETURN_IF_ERROR(CheckDuration("budget", c.far_budget, absl::Milliseconds(50),
                                absl::Milliseconds(200)));
  RETURN_IF_ERROR(CheckDuration("lease_wait", c.far_lease_wait,
                                absl::ZeroDuration(), absl::Minutes(10)));
  RETURN_IF_ERROR(CheckDuration("ttl", c.far_ttl, absl::Minutes(1)));
  if (c.far_tls_certificate.empty() != c.far_tls_key.empty())
    return Refuse("tls_certificate, tls_key",
                  "only one of them is set; set both or neither");
  if (c.far_tls_ca.empty() && !c.far_tls_certificate.empty())
    return Refuse("tls_certificate", "is set without tls_ca");
  if (!c.far_user.empty() && c.far_password_file.empty())
    return Refuse("user", "is set without password_file");
  if (!c.far_password_file.empty() && c.far_addresses.empty() &&
      c.far_peer.empty()) {
    return Refuse("password_file", "is set without addresses");
  }
  RETURN_IF_ERROR(CheckPeer(c));
  RETURN_IF_ERROR(ParseNamespaceBudgets(c.far_namespace_budgets).status());
  RETURN_IF_ERROR(CheckRange("queue_bytes", c.far_queue_bytes, 0, kMaxBytes));
  RETURN_IF_ERROR(CheckRange("max_record_bytes", c.far_max_record_bytes,
                             int64_t{64} << 10, int64_t{512} << 20));
  return absl::OkStatus();
}

absl::Status CheckSandbox(const Config& c) {
  for (const std::string& path : c.worker_readable) {
    if (path.empty() || path[0] != '/' || path == "/") {
      return Refuse(absl::StrCat("[workers] readable: ", path),
                    "expected the absolute path of a folder other than /");
    }
  }
  if (c.worker_sandbox == kStrongestSandbox) return absl::OkStatus();
  if (JailLevelFromName(c.worker_sandbox).ok()) return absl::OkStatus();
  return Refuse(
      "[workers] sandbox",
      absl::StrCat("found \"", c.worker_sandbox, "\", expected ",
                   kStrongestSandbox, ", namespaces, landlock or limits"));
}

// What is kept, and how surely.
absl::Status CheckStorage(const Config& c) {
  RETURN_IF_ERROR(
      CheckRange("cache_budget_entries", c.cache_budget_entries, 0, kMaxBytes));
  if (c.cache_unused != absl::ZeroDuration()) {
    RETURN_IF_ERROR(
        CheckDuration("cache_unused", c.cache_unused, absl::Hours(1)));
  }
  RETURN_IF_ERROR(CheckDuration("sync_every", c.sync_every,
                                absl::ZeroDuration(), absl::Minutes(10)));
  return ParseNamespaceBudgets(c.namespace_budgets).status();
}

absl::Status CheckNumbers(const Config& c) {
  RETURN_IF_ERROR(CheckRange("[listen] max_message_bytes", c.max_message_bytes,
                             int64_t{64} << 10, int64_t{1} << 30));
  RETURN_IF_ERROR(CheckRange("[listen] max_waiting_calls", c.max_waiting_calls,
                             1, 1 << 20));
  RETURN_IF_ERROR(CheckRange("[listen] peer_handshakes_a_second",
                             c.peer_handshakes_a_second, 1, 1 << 20));
  RETURN_IF_ERROR(
      CheckRange("[listen] max_lookups", c.max_lookups, 1, 1 << 20));
  RETURN_IF_ERROR(CheckRange("[listen] max_answer_bytes", c.max_answer_bytes,
                             int64_t{1} << 20, kMaxBytes));
  RETURN_IF_ERROR(CheckRange("[storage] cache_budget_bytes",
                             c.cache_budget_bytes, int64_t{1} << 20,
                             kMaxBytes));
  RETURN_IF_ERROR(CheckRange("[storage] memory_tier_bytes", c.memory_tier_bytes,
                             0, kMaxBytes));
  RETURN_IF_ERROR(
      CheckRange("[storage] min_free_bytes", c.min_free_bytes, 0, kMaxBytes));
  RETURN_IF_ERROR(CheckRange("[workers] count", c.worker_count, 0, 1024));
  if (c.worker_memory_bytes != 0) {
    RETURN_IF_ERROR(CheckRange("[workers] memory_bytes", c.worker_memory_bytes,
                               int64_t{64} << 20, kMaxBytes));
  }
  RETURN_IF_ERROR(CheckRange("[jobs] queue_limit", c.queue_limit, 1, 1 << 20));
  return absl::OkStatus();
}

absl::Status CheckDurations(const Config& c) {
  constexpr absl::Duration kLeast = absl::Milliseconds(1);
  constexpr absl::Duration kDay = absl::Hours(24);
  RETURN_IF_ERROR(
      CheckDuration("[listen] write_timeout", c.write_timeout, kLeast, kDay));
  RETURN_IF_ERROR(
      CheckDuration("[listen] idle_exit", c.idle_exit, absl::ZeroDuration()));
  RETURN_IF_ERROR(
      CheckDuration("[workers] timeout", c.worker_timeout, kLeast, kDay));
  RETURN_IF_ERROR(CheckDuration("[workers] cpu_limit", c.worker_cpu_limit,
                                absl::Seconds(1), 7 * kDay));
  RETURN_IF_ERROR(CheckDuration("[jobs] poison_time", c.poison_time,
                                absl::ZeroDuration(), 366 * kDay));
  return CheckDuration("[jobs] drain_timeout", c.drain_timeout,
                       absl::ZeroDuration(), kDay);
}

}  // namespace

absl::StatusOr<std::map<std::string, int64_t>> ParseNamespaceBudgets(
    const std::vector<std::string>& budgets) {
  std::map<std::string, int64_t> parsed;
  for (const std::string& budget : budgets) {
    const size_t equals = budget.find('=');
    const std::string name = budget.substr(0, equals);
    int64_t bytes = 0;
    const bool read = equals != std::string::npos &&
                      absl::SimpleAtoi(budget.substr(equals + 1), &bytes) &&
                      bytes > 0;
    if (!read ||
        (name != "*" && (name.empty() || !NamespaceNamed(name).ok())) ||
        !parsed.emplace(name, bytes).second) {
      return Refuse(
          "namespace_budgets",
          absl::StrCat("found \"", budget.substr(0, 80),
                       "\", expected \"NAME=BYTES\" with each name once"));
    }
  }
  return parsed;
}

absl::Status CheckConfig(const Config& c) {
  RETURN_IF_ERROR(CheckNumbers(c));
  RETURN_IF_ERROR(Annotate(CheckStorage(c), "[storage]"));
  RETURN_IF_ERROR(CheckSandbox(c));
  RETURN_IF_ERROR(Annotate(CheckFar(c), "[far]"));
  RETURN_IF_ERROR(
      Annotate(ParseKeys(c.trusted_keys).status(), "[keys] trusted"));
  RETURN_IF_ERROR(CheckDurations(c));
  if (c.data_folder.empty()) {
    return Refuse("[storage] data_folder",
                  "is empty, expected the path of a folder");
  }
  if (c.socket.empty() && c.tcp.empty()) {
    return Refuse("[listen]", "neither socket nor tcp is set");
  }
  RETURN_IF_ERROR(Annotate(CheckNetwork(c), "[listen]"));
  for (const AccessRule& rule : c.access)
    RETURN_IF_ERROR(CheckAccessRule(rule));
  // sockaddr_un holds 108 bytes with the closing zero.
  if (c.socket.size() > 107) {
    return Refuse(absl::StrCat("[listen] socket: ", c.socket),
                  absl::StrCat("found ", c.socket.size(),
                               " bytes, expected at most 107"));
  }
  if (c.log_format != "text" && c.log_format != "json") {
    return Refuse("[log] format", absl::StrCat("found \"", c.log_format,
                                               "\", expected text or json"));
  }
  if (c.log_level != "info" && c.log_level != "warning" &&
      c.log_level != "error") {
    return Refuse("[log] level",
                  absl::StrCat("found \"", c.log_level,
                               "\", expected info, warning or error"));
  }
  return absl::OkStatus();
}

}  // namespace kiln

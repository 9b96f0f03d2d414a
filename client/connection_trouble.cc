#include "client/connection_trouble.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace kiln {
namespace {

constexpr absl::string_view kNoName = "DNS resolution failed for ";
constexpr absl::string_view kNoConnection[] = {
    "failed to connect to all addresses; last error: ",
    "connections to all backends failing; last error: "};

// What stands in gRPC's text, and what we say of it.
struct Trouble {
  absl::string_view mark;
  absl::string_view words;
};
constexpr Trouble kTroubles[] = {
    {"Connection refused",
     "Connection refused; no daemon listens there: start one, or check the "
     "address"},
    {"certificate verify failed",
     // gRPC does not say which of the two it is.
     "its certificate has expired (then the daemon logs tls.expired), or the "
     "TLS CA did not sign it; name the CA of that daemon (--tls-ca, "
     "KILN_TLS_CA)"},
    {"Hostname Verification Check failed",
     "its certificate is for other names; use one of those, or give it a "
     "certificate for this one"},
    {"wrong version number",
     "it does not use TLS; leave out the TLS CA, or name a port with TLS"},
    {"Connection reset by peer",
     "it closed the connection; a port with TLS takes the CA of the daemon "
     "(--tls-ca, KILN_TLS_CA)"},
    {"Socket closed",
     "it closed the connection; a port with TLS takes the CA of the daemon "
     "(--tls-ca, KILN_TLS_CA)"},
    {"No route to host", "No route to host; is that machine up?"},
    {"Network is unreachable",
     "Network is unreachable; is this machine on its network?"},
    {"Connection timed out",
     "Connection timed out; is that machine up, and its port open?"},
    {"FD Shutdown",
     "no connection before the deadline; is that machine up, and its port "
     "open?"},
};

// "127.0.0.1:7117: Failed to ..." of "UNKNOWN: ipv4:127.0.0.1:7117: Failed to ...",
// apart at the end of the address. An IPv6 address comes in percents.
struct Failure {
  std::string address;  // empty: none is named
  absl::string_view why;
};
Failure FailureIn(absl::string_view last_error) {
  for (const absl::string_view family : {"ipv4:", "ipv6:"}) {
    const size_t begin = last_error.find(family);
    if (begin == absl::string_view::npos) continue;
    const absl::string_view rest = last_error.substr(begin + family.size());
    const size_t end = rest.find(": ");
    if (end == absl::string_view::npos) continue;
    return {absl::StrReplaceAll(rest.substr(0, end),
                                {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}}),
            rest.substr(end + 2)};
  }
  return {"", last_error};
}

}  // namespace

std::optional<std::string> ConnectionTrouble(absl::string_view said) {
  if (absl::ConsumePrefix(&said, kNoName)) {
    return absl::StrCat(said.substr(0, said.find(": ")),
                        ": unknown host; check the name, or use the host's IP "
                        "address");
  }
  for (const absl::string_view prefix : kNoConnection) {
    if (!absl::ConsumePrefix(&said, prefix)) continue;
    const Failure failure = FailureIn(said);
    const absl::string_view between = failure.address.empty() ? "" : ": ";
    for (const Trouble& trouble : kTroubles) {
      if (absl::StrContains(failure.why, trouble.mark))
        return absl::StrCat(failure.address, between, trouble.words);
    }
    return absl::StrCat(failure.address, between,
                        "cannot connect: ", failure.why);
  }
  return std::nullopt;
}

}  // namespace kiln

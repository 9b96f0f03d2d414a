#include "proto/base/tcp_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

bool IsHost(absl::string_view host) {
  const bool bracketed =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  return !host.empty() &&
         std::all_of(host.begin(), host.end(), [bracketed](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' ||
                  (bracketed && (c == ':' || c == '%'));
         });
}

// All digits: SimpleAtoi would also take a sign and spaces.
bool IsPort(absl::string_view text, int least) {
  int port = -1;
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &port) && port >= least && port <= 65535;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  in_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 &&
         (ntohl(address.s_addr) >> 24) == IN_LOOPBACKNET;
}

}  // namespace

absl::Status CheckTcpAddress(const std::string& address, int least_port) {
  const size_t colon = address.rfind(':');
  if (colon != std::string::npos &&
      IsHost(absl::string_view(address).substr(0, colon)) &&
      IsPort(absl::string_view(address).substr(colon + 1), least_port)) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("found \"", address.substr(0, 80),
                   "\", expected an address like 127.0.0.1:7117 with a port "
                   "from ",
                   least_port, " to 65535"));
}

absl::Status CheckLoopback(const std::string& address) {
  if (IsLoopback(address.substr(0, address.rfind(':'))))
    return absl::OkStatus();
  return MakeError(
      ErrorReason::kBadOption,
      absl::StrCat("tcp ", address,
                   ": without TLS only a loopback address is served; set "
                   "tls_certificate and tls_key"));
}

}  // namespace kiln

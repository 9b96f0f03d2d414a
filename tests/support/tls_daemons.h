#ifndef KILN_TESTS_SUPPORT_TLS_DAEMONS_H_
#define KILN_TESTS_SUPPORT_TLS_DAEMONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/rpc/daemon_tls.h"
#include "server/config.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"

namespace kiln {

// Gives a daemon a door on `port` of 127.0.0.1 (0: one that is free) that shows
// `own`, and believes callers whose certificates `ca` signed.
void OpenTlsDoor(Config& config, const TestCa::Files& own, const TestCa& ca,
                 int port = 0);

// Daemons that reach each other over TLS, on ports of 127.0.0.1, with certificates
// of one CA: "a.example", "b.example", ...
class TlsDaemons {
 public:
  TlsDaemons() : ca_(folder_.path(), "ca") {}

  // Gives a daemon a door on `port`, whose certificate is NAME.example's, and lets
  // the rules say who may do what there.
  void OpenDoor(Config& config, const std::string& name, int port,
                std::vector<AccessRule> rules);
  // Makes the daemon that listens at `port` the peer of this one, NAME.example.
  // Looks get the longest budget there may be.
  void SetPeer(Config& config, const std::string& name, int port);

  // What NAME.example shows.
  DaemonTls TlsOf(const std::string& name);
  TestCa::Files Issue(const std::string& name);

  const std::string& folder() const { return folder_.path(); }
  const std::string& ca_file() const { return ca_.file(); }

 private:
  const ShortFolder folder_;
  TestCa ca_;
};

// The key with which the daemon signs, as hexadecimal digits.
std::string KeyHexOf(TestDaemon& d);

// A counter of `compilectl stats`; fails the test where there is none.
int64_t StatOf(TestDaemon& d, const std::string& name);

// Waits until the counter is at least `due`: what is written far is written behind
// its job's back.
void AwaitStat(TestDaemon& d, const std::string& name, int64_t due);

// What stands in its audit log.
std::string AuditOf(const TestDaemon& d);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_TLS_DAEMONS_H_

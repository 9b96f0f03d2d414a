#include "tests/support/tls_daemons.h"

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_stubs.h"

namespace kiln {

void OpenTlsDoor(Config& config, const TestCa::Files& own, const TestCa& ca,
                 int port) {
  config.tcp = absl::StrCat("127.0.0.1:", port);
  config.tls_certificate = own.certificate;
  config.tls_key = own.key;
  config.tls_client_ca = ca.file();
}

TestCa::Files TlsDaemons::Issue(const std::string& name) {
  return ca_.Issue(absl::StrCat(name, ".example"), name);
}

DaemonTls TlsDaemons::TlsOf(const std::string& name) {
  const TestCa::Files own = Issue(name);
  return {.ca = ca_.file(), .certificate = own.certificate, .key = own.key};
}

void TlsDaemons::OpenDoor(Config& config, const std::string& name, int port,
                          std::vector<AccessRule> rules) {
  OpenTlsDoor(config, Issue(name), ca_, port);
  config.access = std::move(rules);
}

void TlsDaemons::SetPeer(Config& config, const std::string& name, int port) {
  const DaemonTls tls = TlsOf(name);
  config.far_peer = absl::StrCat("127.0.0.1:", port);
  config.far_tls_ca = tls.ca;
  config.far_tls_certificate = tls.certificate;
  config.far_tls_key = tls.key;
  config.far_budget = absl::Milliseconds(200);
}

std::string KeyHexOf(TestDaemon& d) {
  grpc::ClientContext context;
  wire::DescribeReply reply;
  EXPECT_TRUE(CompileStub(d.client())->Describe(&context, {}, &reply).ok());
  return absl::BytesToHexString(reply.public_key());
}

int64_t StatOf(TestDaemon& d, const std::string& name) {
  grpc::ClientContext context;
  wire::StatsReply stats;
  EXPECT_TRUE(AdminStub(d.client())->Stats(&context, {}, &stats).ok());
  for (const wire::Counter& counter : stats.counters())
    if (counter.name() == name) return counter.value();
  ADD_FAILURE() << "no counter " << name;
  return -1;
}

void AwaitStat(TestDaemon& d, const std::string& name, int64_t due) {
  const SteadyTime deadline = After(SteadyNow(), absl::Seconds(30));
  while (StatOf(d, name) < due) {
    ASSERT_GT(TimeLeft(deadline), absl::ZeroDuration())
        << name << ": " << StatOf(d, name) << " of " << due;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string AuditOf(const TestDaemon& d) {
  std::ifstream in(absl::StrCat(d.config().data_folder, "/audit.log"));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace kiln

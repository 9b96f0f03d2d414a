// Everything over TLS with certificates on both sides: callers at daemons, and
// daemons at the Redis that they share.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/session.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "tests/support/null_session.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

using wire::CompileResult;

class TlsTier : public testing::Test {
 protected:
  TlsTier()
      : redis_files_(tls_.Issue("redis")),
        redis_({"--tls-cert-file", redis_files_.certificate, "--tls-key-file",
                redis_files_.key, "--tls-ca-cert-file", tls_.ca_file(),
                "--tls-auth-clients", "yes"},
               /*tls=*/true) {}

  // A daemon NAME.example that shows its certificate at both of its ends.
  void Configure(Config& config, const std::string& name) {
    tls_.OpenDoor(config, name, 0,
                  {{"cert:trainer.example", {Role::kSubmitter, {"team-a"}}},
                   {"cert:other.example", {Role::kSubmitter, {"team-b"}}}});
    ShowToRedis(config, name);
  }
  void ShowToRedis(Config& config, const std::string& name) {
    const DaemonTls own = tls_.TlsOf(name);
    config.far_addresses = {redis_.address()};
    config.far_tls_ca = own.ca;
    config.far_tls_certificate = own.certificate;
    config.far_tls_key = own.key;
    config.far_budget = absl::Milliseconds(200);
  }

  // A session of NAME.example in a namespace, which knows nothing of the daemon
  // but its port and key.
  std::shared_ptr<Session> SessionOf(const std::string& name, TestDaemon& d,
                                     const std::string& cache_namespace) {
    SessionOptions options = NullSessionOptions("");
    options.daemon.tcp = absl::StrCat("127.0.0.1:", d.daemon().tcp_port());
    options.daemon.tls = tls_.TlsOf(name);
    for (const std::string& key : signers_) {
      options.daemon.public_keys.push_back(
          *PublicKey::FromBytes(absl::HexStringToBytes(key)));
    }
    options.cache_namespace = cache_namespace;
    auto session = Session::Open(std::move(options));
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }

  TlsDaemons tls_;
  const TestCa::Files redis_files_;
  RedisServer redis_;
  std::vector<std::string> signers_;  // that sessions believe
};

TEST_F(TlsTier, ARecordOfANamespaceIsWrittenByOneDaemonAndHitByAnother) {
  TestDaemon first([&](Config& config) { Configure(config, "first"); });
  signers_ = {KeyHexOf(first)};
  TestDaemon second([&](Config& config) {
    Configure(config, "second");
    config.trusted_keys = {absl::StrCat("team-a:", signers_[0])};
  });
  signers_.push_back(KeyHexOf(second));

  const CompileReport made =
      ReportOf(SessionOf("trainer", first, "team-a"), "fake.units.2");
  EXPECT_TRUE(made.daemon_status.ok()) << made.daemon_status;
  EXPECT_EQ(made.served_from, CompileResult::SERVED_FROM_COMPILE);
  // The entry, its units.
  AwaitStat(first, "far.writes", 3);

  const CompileReport found =
      ReportOf(SessionOf("trainer", second, "team-a"), "fake.units.2");
  EXPECT_TRUE(found.daemon_status.ok()) << found.daemon_status;
  EXPECT_EQ(found.served_from, CompileResult::SERVED_FROM_CACHE);
  EXPECT_FALSE(found.by_local_worker);
  EXPECT_EQ(second.count(Count::kPlans), 0);
  EXPECT_EQ(StatOf(second, "far.hits"), 1);

  // Another team's certificate gets nothing of it: its own is compiled.
  const CompileReport other =
      ReportOf(SessionOf("other", second, "team-b"), "fake.units.2");
  EXPECT_EQ(other.served_from, CompileResult::SERVED_FROM_COMPILE);
  const auto refused = SessionOf("other", second, "team-a")
                           ->Compile(FakeRequest({"fake.units.2"}).graph());
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kPermission);
}

TEST_F(TlsTier, ADaemonWithoutACertificateIsRefusedByTheStoreAndCompiles) {
  TestDaemon d([&](Config& config) {
    ShowToRedis(config, "d");
    config.far_tls_certificate.clear();
    config.far_tls_key.clear();
  });
  const CompileAnswer answer = d.client().Compile(FakeRequest({"fake.salt.a"}));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(StatOf(d, "far.hits") + StatOf(d, "far.writes"), 0);
  EXPECT_GT(StatOf(d, "far.errors"), 0);
}

}  // namespace
}  // namespace kiln

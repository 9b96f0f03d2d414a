// Daemons that are each other's far tier, over TLS with certificates on both sides.

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/session.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/free_port.h"
#include "tests/support/null_session.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

using wire::CompileResult;

AccessRule Rule(const std::string& name, Role role,
                const std::string& cache_namespace = "*") {
  return {absl::StrCat("cert:", name, ".example"), {role, {cache_namespace}}};
}

bool IsHit(TestDaemon& d, const std::string& op) {
  const auto reply = d.client().Lookup(LookupFor(FakeRequest({op})));
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() && reply->outcome() == wire::LookupReply::OUTCOME_HIT;
}

// A busy machine may need more than one look's budget.
void AwaitHit(TestDaemon& d, const std::string& op) {
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(30));
  while (!IsHit(d, op)) {
    ASSERT_LT(SteadyNow(), patience);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class PeerTier : public testing::Test {
 protected:
  TlsDaemons tls_;
};

TEST_F(PeerTier, WhatOneCompiledIsAHitAtAnotherWithAnEmptyDisk) {
  TestDaemon a([&](Config& config) {
    tls_.OpenDoor(config, "a", 0, {Rule("b", Role::kReader)});
  });
  TestDaemon b([&](Config& config) {
    tls_.SetPeer(config, "b", a.daemon().tcp_port());
    config.trusted_keys = {KeyHexOf(a)};
  });
  const CompileAnswer made = a.client().Compile(FakeRequest({"fake.units.2"}));
  ASSERT_TRUE(made.status.ok()) << made.status;
  AwaitHit(b, "fake.units.2");
  const auto found =
      b.client().Lookup(LookupFor(FakeRequest({"fake.units.2"})));
  EXPECT_EQ(found->artifact().artifact(), made.result.artifact().artifact());
  EXPECT_EQ(b.count(Count::kPlans), 0);
  EXPECT_EQ(StatOf(b, "far.hits"), 1);
  EXPECT_EQ(a.count(Count::kRecordsGiven), 1);
  EXPECT_TRUE(ReportOf(*Session::Open(NullSessionOptions(b.config().socket)),
                       "fake.units.2")
                  .daemon_status.ok());
  // From now on it is near.
  a.Stop();
  EXPECT_TRUE(IsHit(b, "fake.units.2"));
}

}  // namespace
}  // namespace kiln

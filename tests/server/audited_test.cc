// What stands in the audit log of acts that nobody's call ends with.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/counters.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

template <typename Reached>
void WaitUntil(Reached reached) {
  const absl::Time give_up = absl::Now() + absl::Minutes(4);
  while (!reached()) {
    ASSERT_LT(absl::Now(), give_up) << "what was waited for did not come";
    absl::SleepFor(absl::Milliseconds(5));
  }
}

TEST(Audited, ACompileWhoseCallerHasLeft) {
  TestDaemon d;
  grpc::ClientContext context;
  const auto stream =
      CompileStub(d.client())
          ->Compile(&context, FakeRequest({"fake.gate.a", "fake.salt.left"}));
  WaitUntil([&d] { return d.count(Count::kJobsStarted) == 1; });
  context.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
  WaitUntil([&d] {
    grpc::ClientContext asks;
    wire::JobsReply jobs;
    AdminStub(d.client())->Jobs(&asks, {}, &jobs);
    return jobs.jobs_size() == 1 && jobs.jobs(0).waiters() == 0;
  });
  d.OpenGate("a");
  WaitUntil([&d] { return d.count(Count::kJobsDone) == 1; });
  const std::string log = AuditOf(d);
  EXPECT_TRUE(absl::StrContains(log, "\"what\":\"compile\"")) << log;
  EXPECT_TRUE(absl::StrContains(log, "\"outcome\":\"OK\"")) << log;
  EXPECT_FALSE(absl::StrContains(log, "\"who\":\"\"")) << log;
}

TEST(Audited, ACompileIsOneLineHoweverManyWaitForIt) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  ASSERT_TRUE(d.client().Compile(request).status.ok());  // a hit has none
  const std::string log = AuditOf(d);
  const size_t first = log.find("\"what\":\"compile\"");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("\"what\":\"compile\"", first + 1), std::string::npos)
      << log;
}

TEST(Audited, AnEntryNearWhoseKeyWasRevoked) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  wire::RevokeKeyRequest revoke;
  revoke.set_key_hex(KeyHexOf(d));
  grpc::ClientContext context;
  wire::RevokeKeyReply revoked;
  ASSERT_TRUE(
      AdminStub(d.client())->RevokeKey(&context, revoke, &revoked).ok());
  const auto found = d.client().Lookup(LookupFor(request));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_NE(found->outcome(), wire::LookupReply::OUTCOME_HIT);
  const std::string log = AuditOf(d);
  EXPECT_TRUE(absl::StrContains(log, "\"who\":\"near\"")) << log;
  EXPECT_TRUE(absl::StrContains(log, "\"outcome\":\"ARTIFACT_UNTRUSTED\""))
      << log;
}

}  // namespace
}  // namespace kiln

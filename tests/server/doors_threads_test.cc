// What the threads of a door are kept free of.
#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/health_client.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

constexpr int kLookups = 64;

// One lookup that is under way.
struct Asked {
  grpc::ClientContext context;
  wire::LookupReply reply;
};

// Lookups that are not in memory read the disk, verify and unpack, on threads as
// many as the cores. However long they take, the door hears the next call.
TEST(DoorsThreads, AreNotHeldByLookups) {
  TestDaemon d;
  const wire::CompileRequest stored = FakeRequest({"fake.salt.stored"});
  ASSERT_TRUE(d.client().Compile(stored).status.ok());
  const wire::LookupRequest lookup = LookupFor(stored);
  const wire::CompileRequest ready = FakeRequest({"fake.salt.ready"});
  d.Restart();
  ASSERT_TRUE(d.client().Compile(ready).status.ok());

  std::promise<void> go_on;
  const std::shared_future<void> told = go_on.get_future().share();
  std::atomic<unsigned> held = 0;
  const unsigned threads = std::max(2u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < threads; ++i) {
    ASSERT_TRUE(d.daemon()
                    .executor()
                    .Run("test", 0,
                         [&held, told] {
                           ++held;
                           told.wait();
                         })
                    .ok());
  }
  while (held < threads) std::this_thread::yield();

  std::atomic<int> answered = 0;
  std::atomic<int> hits = 0;
  std::deque<Asked> asked(kLookups);
  for (Asked& one : asked) {
    d.client().compile().async()->Lookup(
        &one.context, &lookup, &one.reply, [&](const grpc::Status& status) {
          hits += status.ok() &&
                  one.reply.outcome() == wire::LookupReply::OUTCOME_HIT;
          ++answered;
        });
  }
  // Over the lookups' own connection, after them, and over another.
  for (int i = 0; i < kLookups; ++i) {
    grpc::ClientContext context;
    wire::DescribeReply reply;
    ASSERT_TRUE(d.client().compile().Describe(&context, {}, &reply).ok());
  }
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.config().socket)), "SERVING");
  // So does who asks for what is in memory.
  const auto at_once = d.client().Lookup(LookupFor(ready));
  ASSERT_TRUE(at_once.ok()) << at_once.status();
  EXPECT_EQ(at_once->outcome(), wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(answered, 0);

  go_on.set_value();
  while (answered < kLookups) std::this_thread::yield();
  EXPECT_EQ(hits, kLookups);
}

}  // namespace
}  // namespace kiln

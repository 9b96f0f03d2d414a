// What the threads of a door are kept free of.
#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/call_executor.h"
#include "tests/support/daemon_stubs.h"
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

// All threads that decode and look, held until they are let go.
class HeldThreads {
 public:
  explicit HeldThreads(CallExecutor& executor) {
    const std::shared_future<void> told = go_on_.get_future().share();
    std::atomic<unsigned> held = 0;
    const unsigned threads = std::max(2u, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < threads; ++i) {
      EXPECT_TRUE(executor
                      .Run("test", 0,
                           [&held, told] {
                             ++held;
                             told.wait();
                           })
                      .ok());
    }
    while (held < threads) std::this_thread::yield();
  }
  void LetGo() { go_on_.set_value(); }

 private:
  std::promise<void> go_on_;
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

  HeldThreads held(d.daemon().executor());
  std::atomic<int> answered = 0;
  std::atomic<int> hits = 0;
  std::deque<Asked> asked(kLookups);
  for (Asked& one : asked) {
    CompileStub(d.client())
        ->async()
        ->Lookup(
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
    ASSERT_TRUE(CompileStub(d.client())->Describe(&context, {}, &reply).ok());
  }
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.config().socket)), "SERVING");
  // So does who asks for what is in memory.
  const auto at_once = d.client().Lookup(LookupFor(ready));
  ASSERT_TRUE(at_once.ok()) << at_once.status();
  EXPECT_EQ(at_once->outcome(), wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(answered, 0);

  held.LetGo();
  while (answered < kLookups) std::this_thread::yield();
  EXPECT_EQ(hits, kLookups);
}

// Its bytes are not gRPC's any more when its turn comes.
TEST(DoorsThreads, ACompileCallThatEndedBeforeItsTurnIsReadAsItCame) {
  constexpr int kCalls = 64;
  TestDaemon d([](Config& config) { config.max_waiting_calls = 2 * kCalls; });
  HeldThreads held(d.daemon().executor());
  const wire::CompileRequest request = RequestOfBytes(10000);
  const auto ask = [&] {
    return d.client().Compile(request, absl::Milliseconds(200)).status;
  };
  std::deque<grpc::ClientContext> contexts(kCalls);
  std::deque<std::unique_ptr<grpc::ClientReader<wire::CompileEvent>>> calls;
  for (grpc::ClientContext& context : contexts)
    calls.push_back(CompileStub(d.client())->Compile(&context, request));
  // All have a place: there is none for one more.
  while (!absl::IsResourceExhausted(ask())) {
  }
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (const auto& call : calls)
    EXPECT_EQ(call->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // All have gone.
  while (absl::IsResourceExhausted(ask())) {
  }
  const int64_t refused = d.count(Count::kCallsRefused);
  held.LetGo();
  d.daemon().executor().WaitUntilIdle(absl::InfiniteDuration());
  EXPECT_EQ(d.count(Count::kCallsRefused), refused);
}

}  // namespace
}  // namespace kiln

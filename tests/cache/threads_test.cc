// Many threads on one cache; TSan watches.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "cache/cache_stack.h"

namespace kiln {
namespace {

TEST(CacheThreads, ManyMayLookUpInsertListAndPurgeAtOnce) {
  const RealClock clock;
  // Small budgets, so that eviction is at work as well.
  const CacheOptions options = {
      .artifact_bytes = 4000, .unit_bytes = 2000, .memory_bytes = 1500};
  const auto stack =
      CacheStack::Open(options, *SigningKey::Generate(), {}, clock);
  ASSERT_TRUE(stack.ok()) << stack.status();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 100; ++i) {
        const Digest key = Sha256Of(std::to_string(i % 10));
        NewEntry entry;
        entry.key.digest = key;
        entry.artifact.set_artifact(std::string(100, 'x'));
        EXPECT_TRUE((*stack)->artifacts().Insert(std::move(entry)).ok());
        const CacheAnswer answer = (*stack)->artifacts().Lookup(key, {});
        EXPECT_TRUE(!answer.hit() || answer.artifact.artifact().size() == 100);
        wire::ObjectCode object;
        object.set_image("image");
        EXPECT_TRUE((*stack)->units().Insert(key, object).ok());
        (*stack)->units().Lookup(key);
        if (i % 20 == thread) {
          EXPECT_TRUE((*stack)->artifacts().List("", 0).ok());
          EXPECT_TRUE(
              (*stack)->artifacts().Purge({.key_prefix_hex = "0"}).ok());
          (*stack)->Counters();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln

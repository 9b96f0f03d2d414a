#include "cache/far/redis_slots.h"

#include <gtest/gtest.h>

#include "proto/base/status.h"

namespace kiln {
namespace {

const HostPort kAsked = {"10.0.0.1", 7000};

RespValue Reply(const std::string& bytes) {
  RespReader reader({});
  reader.Append(bytes);
  return **reader.Next();
}

TEST(RedisSlots, KeysFallWhereTheSpecificationSays) {
  EXPECT_EQ(SlotOf("123456789"), 0x31c3 % kRedisSlots);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf("{foo}.bar"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{foo}b{c}"), SlotOf("foo"));
  EXPECT_NE(SlotOf("{}foo"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("foo{{bar}}zap"), SlotOf("{bar"));
}

TEST(RedisSlots, AMapOfRanges) {
  const auto map = SlotMap::Parse(
      Reply("*2\r\n"
            "*3\r\n:0\r\n:99\r\n*2\r\n$8\r\n10.0.0.2\r\n:7001\r\n"
            "*3\r\n:200\r\n:200\r\n*2\r\n$0\r\n\r\n:7002\r\n"),
      kAsked);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(*map->NodeOf(0), (HostPort{"10.0.0.2", 7001}));
  EXPECT_EQ(*map->NodeOf(99), (HostPort{"10.0.0.2", 7001}));
  EXPECT_EQ(map->NodeOf(100), nullptr);
  EXPECT_EQ(*map->NodeOf(200), (HostPort{"10.0.0.1", 7002}));
  EXPECT_EQ(map->nodes().size(), 2u);
}

TEST(RedisSlots, NonsenseIsNoMap) {
  for (const char* bytes :
       {":1\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:1\r\n:2\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n"}) {
    EXPECT_EQ(ReasonOf(SlotMap::Parse(Reply(bytes), kAsked).status()),
              ErrorReason::kArtifactCorrupt)
        << bytes;
  }
  // Of a range without a node that can be reached nobody is told.
  const auto unknown = SlotMap::Parse(
      Reply("*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\n?\r\n:7001\r\n"), kAsked);
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->NodeOf(0), nullptr);
}

// Else a reply of 100,000 ranges of all slots would be two billion steps.
TEST(RedisSlots, RangesThatOverlapAreNoMap) {
  const std::string range = "*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nh\r\n:1\r\n";
  EXPECT_TRUE(SlotMap::Parse(Reply("*1\r\n" + range), kAsked).ok());
  const absl::Status refused =
      SlotMap::Parse(Reply("*2\r\n" + range + range), kAsked).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kArtifactCorrupt) << refused;
  // Those without a primary cost work too.
  const std::string unknown = "*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:1\r\n";
  EXPECT_FALSE(
      SlotMap::Parse(Reply("*2\r\n" + unknown + unknown), kAsked).ok());
}

TEST(RedisSlots, Redirects) {
  const auto moved = ParseRedirect("MOVED 3999 10.0.0.9:6381", kAsked);
  ASSERT_TRUE(moved.has_value());
  EXPECT_FALSE(moved->ask);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->to, (HostPort{"10.0.0.9", 6381}));
  EXPECT_TRUE(ParseRedirect("ASK 1 h:2", kAsked)->ask);
  EXPECT_EQ(ParseRedirect("ASK 1 :2", kAsked)->to.host, "10.0.0.1");
  EXPECT_EQ(ParseRedirect("ASK 1 ::1:2", kAsked)->to, (HostPort{"::1", 2}));
  for (const char* other : {"ERR no", "MOVED", "MOVED x h:1", "MOVED 16384 h:1",
                            "MOVED 1 h", "MOVED 1 h:0", "MOVED 1 h:65536"}) {
    EXPECT_FALSE(ParseRedirect(other, kAsked).has_value()) << other;
  }
}

}  // namespace
}  // namespace kiln

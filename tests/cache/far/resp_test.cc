#include "cache/far/resp.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using Kind = RespValue::Kind;

// All replies of `bytes`, which come in pieces of `piece` bytes.
absl::StatusOr<std::vector<RespValue>> ReadAll(const std::string& bytes,
                                               size_t piece,
                                               RespLimits limits = {}) {
  RespReader reader(limits);
  std::vector<RespValue> replies;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    reader.Append(absl::string_view(bytes).substr(at, piece));
    while (true) {
      ASSIGN_OR_RETURN(std::optional<RespValue> reply, reader.Next());
      if (!reply.has_value()) break;
      replies.push_back(*std::move(reply));
    }
  }
  return replies;
}

TEST(Resp, ACommandIsAnArrayOfBulkStrings) {
  EXPECT_EQ(EncodeCommand({"GET", "a\r\nb", ""}),
            "*3\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
}

TEST(Resp, EveryKindIsReadHoweverItIsCut) {
  const std::string bytes =
      "+OK\r\n-MOVED 1 h:2\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
      "*2\r\n*1\r\n:1\r\n*2\r\n$0\r\n\r\n-no\r\n:9\r\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const auto replies = ReadAll(bytes, piece);
    ASSERT_TRUE(replies.ok()) << piece << ": " << replies.status();
    ASSERT_EQ(replies->size(), 9u) << piece;
    EXPECT_EQ((*replies)[0].text, "OK");
    EXPECT_TRUE((*replies)[1].is(Kind::kError));
    EXPECT_EQ((*replies)[2].integer, -7);
    EXPECT_EQ((*replies)[3].text, "a\r\n");
    EXPECT_TRUE((*replies)[4].is(Kind::kNull));
    EXPECT_TRUE((*replies)[5].is(Kind::kNull));
    EXPECT_TRUE((*replies)[6].is(Kind::kArray));
    const RespValue& nested = (*replies)[7];
    ASSERT_EQ(nested.items.size(), 2u);
    EXPECT_EQ(nested.items[0].items[0].integer, 1);
    EXPECT_EQ(nested.items[1].items[0].text, "");
    EXPECT_TRUE(nested.items[1].items[1].is(Kind::kError));
    EXPECT_EQ((*replies)[8].integer, 9);
  }
}

TEST(Resp, NonsenseIsRefused) {
  for (const char* bytes :
       {"hello\r\n", "\r\n", ":\r\n", ":1 \r\n", ": 1\r\n", ":1x\r\n",
        "$-2\r\n", "*-2\r\n", "$99999999999999999999\r\n", "$3\r\nabcd\r\n",
        "*3000000000\r\n", "$67108865\r\n", "%1\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}) {
    const auto replies = ReadAll(bytes, 1);
    EXPECT_EQ(ReasonOf(replies.status()), ErrorReason::kArtifactCorrupt)
        << bytes;
  }
  EXPECT_FALSE(ReadAll("+" + std::string(5000, 'x'), 100).ok());
}

TEST(Resp, WhatIsOverALimitIsRefusedAtItsHeader) {
  RespLimits limits = {.max_bytes = 100, .max_values = 4, .max_depth = 2};
  EXPECT_TRUE(
      ReadAll("$50\r\n" + std::string(50, 'x') + "\r\n", 7, limits).ok());
  EXPECT_FALSE(ReadAll("$101\r\n", 7, limits).ok());
  const std::string half = "$45\r\n" + std::string(45, 'x') + "\r\n";
  EXPECT_FALSE(ReadAll("*2\r\n" + half + "$45\r\n", 7, limits).ok());
  EXPECT_TRUE(ReadAll("*3\r\n:1\r\n:1\r\n:1\r\n", 7, limits).ok());
  EXPECT_FALSE(ReadAll("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", 7, limits).ok());
  // Limits are a reply's, not the connection's.
  EXPECT_EQ(ReadAll(half + half + half, 7, limits)->size(), 3u);
}

TEST(Resp, RandomBytesAreReadOrRefused) {
  std::mt19937 random(7);
  const std::string alphabet = "+-:$*0123456789\r\n\r\n\r\nab";
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (int i = 0; i < 40; ++i) bytes += alphabet[random() % alphabet.size()];
    const auto replies = ReadAll(bytes, 1 + random() % 40);
    if (!replies.ok()) {
      EXPECT_EQ(ReasonOf(replies.status()), ErrorReason::kArtifactCorrupt);
    }
  }
}

}  // namespace
}  // namespace kiln

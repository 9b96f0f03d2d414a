#include "proto/base/rpc_details.h"

#include <string>

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(RpcDetails, TheDelayComesBack) {
  const absl::Status status = absl::ResourceExhaustedError("queue: full");
  for (const absl::Duration delay :
       {absl::ZeroDuration(), absl::Milliseconds(1500), absl::Minutes(2)}) {
    EXPECT_EQ(RetryDelayIn(RpcDetailsOf(status, delay, 0)), delay);
  }
}

// As google/rpc/status.proto and error_details.proto have it, byte by byte.
TEST(RpcDetails, ItIsGooglesFormat) {
  const std::string url = "type.googleapis.com/google.rpc.RetryInfo";
  const std::string info("\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01", 10);
  const std::string any = "\x0a\x28" + url + "\x12\x0a" + info;
  EXPECT_EQ(RpcDetailsOf(absl::ResourceExhaustedError("x"),
                         absl::Seconds(1) + absl::Nanoseconds(500'000'000), 0),
            "\x08\x08\x12\x01x\x1a" + std::string(1, char(any.size())) + any);
}

TEST(RpcDetails, WhatNamesNoneGivesNone) {
  EXPECT_EQ(RetryDelayIn(""), std::nullopt);
  EXPECT_EQ(RetryDelayIn("\xff\xff"), std::nullopt);
}

TEST(RpcDetails, ADelayIsBounded) {
  const absl::Status status = absl::ResourceExhaustedError("x");
  EXPECT_EQ(RetryDelayIn(RpcDetailsOf(status, absl::Hours(1000), 0)),
            absl::Hours(1));
  EXPECT_EQ(RetryDelayIn(RpcDetailsOf(status, -absl::Hours(1), 0)),
            absl::ZeroDuration());
}

}  // namespace
}  // namespace kiln

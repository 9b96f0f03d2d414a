#include "server/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "proto/base/bounded_log.h"
#include "proto/base/log.h"

namespace kiln {
namespace {

TEST(LibraryLogs, WhatGrpcAndProtobufSayAreBoundedEventsOfOurs) {
  std::vector<std::string> lines;
  ASSERT_TRUE(ConfigureLog({.sink = [&](absl::string_view line) {
                lines.emplace_back(line);
              }}).ok());
  gpr_log_verbosity_init();  // as gRPC does when it starts
  TakeLibraryLogs();
  for (int i = 0; i < 1000; ++i) {
    gpr_log("src/core/tsi/ssl.cc", 7, GPR_LOG_SEVERITY_ERROR,
            "No match found for server name: %d\nI forged", i);
    GOOGLE_LOG(ERROR) << "String field contains invalid UTF-8";
  }
  ASSERT_TRUE(ConfigureLog({}).ok());
  ASSERT_EQ(lines.size(), static_cast<size_t>(kMostBoundedLines) + 1)
      << absl::StrJoin(lines, "\n");
  EXPECT_TRUE(absl::StrContains(
      lines[0],
      "grpc.said from=ssl.cc:7 text=\"No match found for server name: "
      "0\\nI forged\""))
      << lines[0];
  EXPECT_TRUE(absl::StrContains(lines[1], "protobuf.said from=library_logs_"))
      << lines[1];
}

}  // namespace
}  // namespace kiln

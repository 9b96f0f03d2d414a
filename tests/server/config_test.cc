#include "server/config.h"

#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

Config SoundConfig() {
  Config config;
  config.socket = "/run/kiln/kilnd.sock";
  config.data_folder = "/var/lib/kiln";
  return config;
}

TEST(Config, WhatIsPrintedReadsBackAsTheSame) {
  Config config = SoundConfig();
  config.worker_args = {"--nvrtc", "a \"quoted\" path"};
  config.worker_timeout = absl::Milliseconds(1500);
  const std::string text = ConfigText(config);
  Config again;
  ASSERT_TRUE(ReadConfigText(text, "test", again).ok());
  EXPECT_EQ(ConfigText(again), text);
  EXPECT_EQ(again.worker_args, config.worker_args);
  EXPECT_EQ(again.worker_timeout, config.worker_timeout);
}

TEST(Config, AWordThatIsNotNamedKeepsItsValue) {
  Config config = SoundConfig();
  ASSERT_TRUE(ReadConfigText("[jobs]\nqueue_limit = 7\n", "t", config).ok());
  EXPECT_EQ(config.queue_limit, 7);
  EXPECT_EQ(config.socket, "/run/kiln/kilnd.sock");
}

TEST(Config, AMistakeIsRefusedWithItsPlace) {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"[jobs\n", "t: line 1"},
      {"[joobs]\n", "t: [joobs]: no such table"},
      {"[jobs]\nlimit = 7\n", "t: [jobs] limit: no such word"},
      {"[jobs]\nqueue_limit = \"7\"\n",
       "t:2: [jobs] queue_limit: a whole number is due"},
      {"[workers]\ntimeout = \"soon\"\n", "found \"soon\""},
      {"[workers]\nargs = [1]\n", "[workers] args: a list of strings is due"},
      {"socket = \"x\"\n", "[socket]: no such table"},
  };
  for (const Row& row : rows) {
    Config config;
    const absl::Status status = ReadConfigText(row.text, "t", config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << row.text;
    EXPECT_TRUE(absl::StrContains(status.message(), row.message)) << status;
  }
}

TEST(Config, ValuesOutOfRangeAreRefused) {
  EXPECT_TRUE(CheckConfig(SoundConfig()).ok());
  const auto broken = [](auto change) {
    Config config = SoundConfig();
    change(config);
    return ReasonOf(CheckConfig(config)) == ErrorReason::kBadOption;
  };
  EXPECT_TRUE(broken([](Config& c) { c.queue_limit = 0; }));
  EXPECT_TRUE(broken([](Config& c) { c.max_message_bytes = 1; }));
  EXPECT_TRUE(broken([](Config& c) { c.data_folder.clear(); }));
  EXPECT_TRUE(broken([](Config& c) { c.socket.clear(); }));
  EXPECT_TRUE(broken([](Config& c) { c.socket = std::string(200, 'x'); }));
  EXPECT_TRUE(broken([](Config& c) { c.log_format = "xml"; }));
  EXPECT_TRUE(broken([](Config& c) { c.worker_timeout = absl::Seconds(0); }));
}

}  // namespace
}  // namespace kiln

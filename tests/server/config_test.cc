#include "server/config.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

TEST(Config, AnAddressIsAHostAndAPort) {
  Config config = SoundConfig();
  for (const char* sound :
       {"127.0.0.1:7117", "localhost:1", "[::1]:65535", "a-b.example:80"}) {
    config.tcp = sound;
    EXPECT_TRUE(CheckConfig(config).ok()) << sound;
  }
  for (const char* bad :
       {"foo", "127.0.0.1:99999", "127.0.0.1:0", "127.0.0.1:-1", ":80",
        "127.0.0.1:", "127.0.0.1: 80", "127.0.0.1:+80", "::1:80", "[]:80",
        "a b:80", "http://a:80", "127.0.0.1:80x"}) {
    config.tcp = bad;
    const absl::Status status = CheckConfig(config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << bad;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("found \"", bad, "\"")))
        << status;
  }
}

TEST(Config, AFileWithoutAnEndOrOfAnOddSizeIsNotRead) {
  struct Row {
    std::string path;
    const char* message;
  };
  const std::string folder = testing::TempDir();
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string large = folder + "/large.toml";
  std::ofstream(large) << std::string((1 << 20) + 1, '\n');
  for (const Row& row :
       {Row{"/dev/zero", ": found no regular file, one is due"},
        Row{pipe, ": found no regular file, one is due"},
        Row{folder, ": found no regular file, one is due"},
        Row{large, ": found 1048577 bytes, at most 1048576 are due"},
        Row{"/nowhere.toml", ": can't be read"}}) {
    Config config;
    const absl::Status status = ReadConfigFile(row.path, config);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBadOption) << row.path;
    EXPECT_EQ(status.message(), absl::StrCat(row.path, row.message));
  }
}

}  // namespace
}  // namespace kiln

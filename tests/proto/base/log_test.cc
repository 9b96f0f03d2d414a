#include "proto/base/log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "proto/base/status.h"

namespace kiln {
namespace {

class LogTest : public testing::Test {
 protected:
  void Capture(LogLevel level, LogFormat format) {
    LogOptions options = {.level = level, .format = format};
    options.sink = [this](absl::string_view line) {
      lines_.emplace_back(line);
    };
    ASSERT_TRUE(ConfigureLog(options).ok());
  }
  void TearDown() override { EXPECT_TRUE(ConfigureLog({}).ok()); }

  // A text line without its level and time.
  static std::string AfterTime(const std::string& line) {
    return line.substr(line.find("Z ") + 2);
  }

  std::vector<std::string> lines_;
};

TEST_F(LogTest, AnEventIsOneLineOfNameAndFields) {
  Capture(LogLevel::kInfo, LogFormat::kText);
  LogInfo("cache.lookup", {{"outcome", "hit"}, {"us", 31}, {"warm", true}});
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0].substr(0, 2), "I ");
  EXPECT_EQ(AfterTime(lines_[0]), "cache.lookup outcome=hit us=31 warm=true");
}

TEST_F(LogTest, AScopePutsItsFieldsOnEveryLineUntilItEnds) {
  Capture(LogLevel::kInfo, LogFormat::kText);
  {
    const LogScope outer({{"req", "7f3a"}});
    const LogScope inner({{"key", "9c41d2"}});
    LogInfo("job.started");
  }
  LogInfo("job.ended");
  EXPECT_EQ(AfterTime(lines_[0]), "job.started req=7f3a key=9c41d2");
  EXPECT_EQ(AfterTime(lines_[1]), "job.ended");
}

TEST_F(LogTest, BytesThatAreNoUtf8AreReplacedAndControlsEscaped) {
  // Cut, too long, a surrogate, no lead byte; then what is good.
  const std::string bad = "\xe2\x82|\xc0\xaf|\xed\xa0\x80|\xff|";
  const std::string good = "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82";
  const std::string replaced = "\xef\xbf\xbd";
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    Capture(LogLevel::kInfo, format);
    LogInfo("x.said", {{"text", bad + good +
                                    "\xc2\x9b"
                                    "2J\x1b\nI forged"}});
    const std::string& line = lines_.back();
    EXPECT_NE(line.find("|" + replaced + "|" + good + "\\u009b2J\\u001b\\n"),
              std::string::npos)
        << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  const auto json = nlohmann::json::parse(lines_.back(), nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << lines_.back();
  EXPECT_EQ(json["event"], "x.said");
}

TEST_F(LogTest, AFieldStandsOnceWithItsInnermostValue) {
  Capture(LogLevel::kInfo, LogFormat::kText);
  const LogScope outer({{"key", "9c41d2"}, {"job", "j-1"}});
  const LogScope inner({{"key", "77ab03"}});
  LogInfo("cache.lookup", {{"outcome", "miss"}, {"job", "j-2"}});
  EXPECT_EQ(AfterTime(lines_[0]),
            "cache.lookup key=77ab03 outcome=miss job=j-2");
}

TEST_F(LogTest, AValueCannotForgeALine) {
  Capture(LogLevel::kInfo, LogFormat::kText);
  LogInfo("x.y", {{"name", "a\nE forged key=\"1\""}, {"none", ""}});
  EXPECT_EQ(AfterTime(lines_[0]),
            "x.y name=\"a\\nE forged key=\\\"1\\\"\" none=\"\"");
}

TEST_F(LogTest, LinesBelowTheLevelAreDropped) {
  Capture(LogLevel::kWarning, LogFormat::kText);
  LogInfo("a.b");
  LogWarning("a.b");
  LogError("a.b");
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[0][0], 'W');
  EXPECT_EQ(lines_[1][0], 'E');
}

TEST_F(LogTest, JsonLinesAreJson) {
  Capture(LogLevel::kInfo, LogFormat::kJson);
  LogInfo("a.b",
          {{"text", "q\"\n\x01"}, {"n", int64_t{3}}, {"nan", std::nan("")}});
  const auto line = nlohmann::json::parse(lines_[0]);
  EXPECT_EQ(line["event"], "a.b");
  EXPECT_EQ(line["text"], "q\"\n\x01");
  EXPECT_EQ(line["n"], 3);
  EXPECT_EQ(line["level"], "info");
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsSaid) {
  Capture(LogLevel::kInfo, LogFormat::kText);
  const absl::Status status = ConfigureLog({.file = "/dev/null/kiln.log"});
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStorage);
  LogInfo("still.here");
  EXPECT_EQ(lines_.size(), 1u);
}

}  // namespace
}  // namespace kiln

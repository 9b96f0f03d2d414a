#include "proto/base/bounded_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"

namespace kiln {
namespace {

// The process's bounded log is one: each test has an event of its own.
class BoundedLog : public testing::Test {
 protected:
  BoundedLog() {
    EXPECT_TRUE(ConfigureLog({.sink = [this](absl::string_view line) {
                  const size_t time = line.find("Z ");
                  lines_.emplace_back(line.substr(time + 2));
                }}).ok());
  }
  ~BoundedLog() override { EXPECT_TRUE(ConfigureLog({}).ok()); }

  std::vector<std::string> lines_;
};

TEST_F(BoundedLog, EqualLinesOfAMinuteAreOneAndACount) {
  for (int i = 0; i < 1000; ++i) LogBounded("a.said", "uid:7", "no");
  LogCounted(SteadyIn(absl::Seconds(30)));
  EXPECT_EQ(lines_, std::vector<std::string>{"a.said from=uid:7 text=no"});
  LogCounted(SteadyIn(absl::Seconds(61)));
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[1], "a.said from=uid:7 text=no repeated=999");
  LogCounted(SteadyIn(absl::Seconds(200)));
  EXPECT_EQ(lines_.size(), 2u);
}

TEST_F(BoundedLog, AnEventHasSoManyLinesAMinuteWhateverTheySay) {
  for (int i = 0; i < 1000; ++i) LogBounded("b.said", "x", absl::StrCat(i));
  EXPECT_EQ(lines_.size(), static_cast<size_t>(kMostBoundedLines));
  LogBounded("c.said", "x", "another");
  EXPECT_EQ(lines_.back(), "c.said from=x text=another");
  LogCounted(SteadyIn(absl::Seconds(61)));
  EXPECT_EQ(lines_.back(),
            absl::StrCat("b.said more=", 1000 - kMostBoundedLines));
}

TEST_F(BoundedLog, ALongTextIsCut) {
  LogBounded("d.said", "x", std::string(10000, 'y'));
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_LT(lines_[0].size(), 400u);
}

}  // namespace
}  // namespace kiln

#include "proto/base/duration_text.h"

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(DurationText, DaysStandBeforeWhatAbseilReads) {
  struct Row {
    const char* text;
    absl::Duration due;
  };
  for (const Row& row :
       {Row{"0", absl::ZeroDuration()}, Row{"90s", absl::Seconds(90)},
        Row{"1h30m", absl::Minutes(90)}, Row{"-1h", absl::Hours(-1)},
        Row{"7d", absl::Hours(168)}, Row{"0.5d", absl::Hours(12)},
        Row{"1d12h", absl::Hours(36)}, Row{"0d", absl::ZeroDuration()}}) {
    absl::Duration found = absl::Seconds(-1);
    EXPECT_TRUE(ParseDurationText(row.text, &found)) << row.text;
    EXPECT_EQ(found, row.due) << row.text;
  }
}

TEST(DurationText, OtherTextIsRefusedAndSetsNothing) {
  for (const char* text : {"", "d", "7", "soon", "7 days", "7dd", "1d-1h",
                           "-1d", "1dinf", ".d", "1.2.3d", "1h7d"}) {
    absl::Duration found = absl::Seconds(5);
    EXPECT_FALSE(ParseDurationText(text, &found)) << text;
    EXPECT_EQ(found, absl::Seconds(5)) << text;
  }
}

}  // namespace
}  // namespace kiln

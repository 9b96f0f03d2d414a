#include "client/compilectl/answer.h"

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(Answer, ATableIsAlignedAndHasNoSpaceAtTheEndOfALine) {
  Table table({"JOB", "STATE", "AGE"});
  table.Add({"j-0193", "running", "0.4s"});
  table.Add({"j-1", "queued", ""});
  EXPECT_EQ(table.Text("no jobs"),
            "JOB     STATE    AGE\n"
            "j-0193  running  0.4s\n"
            "j-1     queued\n");
  EXPECT_EQ(Table({"JOB"}).Text("no jobs"), "no jobs\n");
}

TEST(Answer, KeysAreHexAndShort) {
  EXPECT_EQ(ShortKey(std::string("\x9c\x41\xd2\x01", 4)), "9c41d2");
  EXPECT_EQ(ShortKey(""), "-");
}

TEST(Answer, BytesAndAgesReadWell) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(32 << 10), "32.0 KiB");
  EXPECT_EQ(BytesText(uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(AgeText(absl::Milliseconds(400)), "0.4s");
  EXPECT_EQ(AgeText(absl::Seconds(192)), "3m12s");
  EXPECT_EQ(AgeText(absl::Minutes(307)), "5h07m");
  EXPECT_EQ(AgeText(absl::Hours(24 * 12)), "12d");
  EXPECT_EQ(AgeText(absl::Seconds(-5)), "0.0s");
}

}  // namespace
}  // namespace kiln

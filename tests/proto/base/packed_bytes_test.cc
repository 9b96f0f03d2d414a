#include "proto/base/packed_bytes.h"

#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr size_t kMost = size_t{64} << 20;

std::string Text(size_t bytes) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i)
    text += "node " + std::to_string(i) + "\n";
  text.resize(bytes);
  return text;
}

TEST(PackedBytes, ComeBackAsTheyWere) {
  for (const size_t bytes : {0, 1, 1000, 3'000'000}) {
    const auto back = Unpack(Pack(Text(bytes)), kMost);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, Text(bytes));
  }
}

TEST(PackedBytes, AFrameThatWouldFillMemoryIsRefusedByWhatItSays) {
  // 60 MB of zeros in 2 KB.
  const std::string bomb = Pack(std::string(60'000'000, '\0'));
  ASSERT_LT(bomb.size(), 60'000u);
  EXPECT_TRUE(absl::IsDataLoss(Unpack(bomb, kMost).status()));
  const std::string text = Pack(Text(1'000'000));
  EXPECT_TRUE(absl::IsDataLoss(Unpack(text, 999'999).status()));
}

TEST(PackedBytes, ALieAboutTheSizeIsFound) {
  const std::string packed = Pack(Text(100'000));
  for (size_t i = 0; i < 12; ++i) {
    for (const int bit : {1, 16, 128}) {
      std::string lie = packed;
      lie[i] = static_cast<char>(lie[i] ^ bit);
      const auto back = Unpack(lie, kMost);
      EXPECT_TRUE(!back.ok() || *back == Text(100'000)) << i;
    }
  }
  EXPECT_FALSE(Unpack(packed.substr(0, packed.size() / 2), kMost).ok());
  EXPECT_FALSE(Unpack(packed + "more", kMost).ok());
  EXPECT_FALSE(Unpack("", kMost).ok());
}

}  // namespace
}  // namespace kiln

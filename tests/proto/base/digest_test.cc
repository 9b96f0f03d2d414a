#include "proto/base/digest.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Digest, IsSha256) {
  EXPECT_EQ(Sha256Of("abc").Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().Add("a").Add("bc").Finish(), Sha256Of("abc"));
}

TEST(Digest, GoesToBytesAndHexAndBack) {
  const Digest digest = Sha256Of("x");
  EXPECT_EQ(Digest::FromBytes(digest.ToBytes()), digest);
  EXPECT_EQ(Digest::FromHex(digest.Hex()), digest);
  EXPECT_EQ(digest.ShortHex(), digest.Hex().substr(0, 6));
  EXPECT_FALSE(Digest::FromBytes("short").has_value());
  EXPECT_FALSE(Digest::FromHex(std::string(64, 'g')).has_value());
  EXPECT_FALSE(Digest::FromHex(std::string(63, 'a')).has_value());
}

TEST(Digest, FieldsDoNotRunIntoOneAnother) {
  EXPECT_NE(Sha256().AddField("ab").AddField("c").Finish(),
            Sha256().AddField("a").AddField("bc").Finish());
}

TEST(Xxh3, IsTheLibrarysSum) {
  EXPECT_EQ(Xxh3_64(""), 0x2d06800538d394c2u);
  EXPECT_NE(Xxh3_64("a"), Xxh3_64("b"));
}

}  // namespace
}  // namespace kiln

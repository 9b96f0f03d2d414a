// A program of its own: the first digest that is made fetches the algorithm for good.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "proto/base/digest.h"

namespace kiln {
namespace {

// A digest of zeros would be that of every text.
TEST(NoDigestDeathTest, TheProcessEndsWhereOpenSslHasNoSha256) {
  ASSERT_EQ(EVP_set_default_properties(nullptr, "provider=none"), 1);
  EXPECT_DEATH(Sha256Of("abc"), "OpenSSL gives no SHA-256");
  // The one that is tried, not another fault of the program.
  ASSERT_EQ(EVP_set_default_properties(nullptr, ""), 1);
  EXPECT_EQ(Sha256Of("abc").ShortHex(), "ba7816");
}

}  // namespace
}  // namespace kiln

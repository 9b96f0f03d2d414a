#include "runtime/extern_kernels/half_float.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "runtime/extern_kernels/matmul_finish.h"

namespace kiln {
namespace {

// The value of f16 bits by their definition (IEEE 754 binary16).
double Float16ByDefinition(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(HalfFloat, EveryFloat16WidensToItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const double due = Float16ByDefinition(half);
    const float wide = FloatOfFloat16(half);
    if (std::isnan(due)) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(FloatOfFloat16(Float16Of(wide))));
      continue;
    }
    ASSERT_EQ(wide, due) << bits;
    ASSERT_EQ(Float16Of(wide), half) << bits;
  }
}

TEST(HalfFloat, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = FloatOfFloat16(static_cast<uint16_t>(bits));
    const float high = FloatOfFloat16(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(Float16Of(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(Float16Of(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(Float16Of(std::nextafter(middle, 1e9f)), bits + 1);
  }
  EXPECT_EQ(Float16Of(65519.0f), 0x7bff);
  EXPECT_EQ(Float16Of(65520.0f), 0x7c00);  // infinity
  EXPECT_EQ(Float16Of(-1e30f), 0xfc00);
}

TEST(HalfFloat, BFloat16RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7f7f; bits += 3) {
    const float low = FloatOfBFloat16(static_cast<uint16_t>(bits));
    EXPECT_EQ(BFloat16Of(low), bits);
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000u);
    EXPECT_EQ(BFloat16Of(middle), bits % 2 == 0 ? bits : bits + 1);
  }
  EXPECT_TRUE(std::isnan(
      FloatOfBFloat16(BFloat16Of(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(
      FloatOfBFloat16(BFloat16Of(std::bit_cast<float>(0x7f800001u)))));
}

TEST(MatmulFinish, VectorExpIsWithinTwoUnitsInTheLastPlace) {
  for (float x = -86.9f; x < 87.9f; x += 0.00917f) {
    const double due = std::exp(static_cast<double>(x));
    EXPECT_NEAR(VectorExp(x) / due, 1.0, 2.4e-7) << x;
  }
}

}  // namespace
}  // namespace kiln

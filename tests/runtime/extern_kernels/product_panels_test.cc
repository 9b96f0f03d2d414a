#include "runtime/extern_kernels/product_panels.h"

#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace kiln {
namespace {

template <typename T>
std::vector<T> SmallNumbers(int64_t count) {
  static std::mt19937 random(5);
  std::vector<T> numbers(count);
  for (T& number : numbers) number = static_cast<T>(random() % 9) - 4;
  return numbers;
}

template <typename T>
class ProductPanels : public testing::Test {};
using Numbers = testing::Types<float, double, int32_t, int64_t>;
TYPED_TEST_SUITE(ProductPanels, Numbers);

// Of every width that this machine has, the narrowest among them.
TYPED_TEST(ProductPanels, EveryWidthAddsTheSumsOfProducts) {
  using T = TypeParam;
  const auto kernels = PanelKernels<T>();
  ASSERT_FALSE(kernels.empty());
  EXPECT_EQ(kernels.back().columns * sizeof(T), 32);
  for (const PanelKernel<T>& kernel : kernels) {
    for (const int64_t depth : {0, 1, 37}) {
      SCOPED_TRACE(testing::Message() << kernel.rows << " x " << kernel.columns
                                      << ", depth " << depth);
      const int64_t stride = kernel.columns + 3;
      const auto a = SmallNumbers<T>(kernel.rows * depth);
      const auto b = SmallNumbers<T>(kernel.columns * depth);
      const auto before = SmallNumbers<T>(kernel.rows * stride);
      auto due = before, sums = before;
      for (int64_t i = 0; i < kernel.rows; ++i) {
        for (int64_t j = 0; j < kernel.columns; ++j) {
          for (int64_t d = 0; d < depth; ++d) {
            due[i * stride + j] +=
                a[d * kernel.rows + i] * b[d * kernel.columns + j];
          }
        }
      }
      kernel.add(a.data(), b.data(), depth, sums.data(), stride);
      EXPECT_EQ(sums, due);
    }
  }
}

TEST(PanelSums, IntegersWrap) {
  for (const auto& kernel : PanelKernels<int64_t>()) {
    const int64_t most = std::numeric_limits<int64_t>::max();
    const std::vector<int64_t> a(kernel.rows, most), b(kernel.columns, 2);
    std::vector<int64_t> sums(kernel.rows * kernel.columns, -1);
    kernel.add(a.data(), b.data(), 1, sums.data(), kernel.columns);
    for (const int64_t sum : sums) EXPECT_EQ(sum, -3);
  }
}

TYPED_TEST(ProductPanels, APanelHoldsWhatThereIsAndZeros) {
  using T = TypeParam;
  constexpr int64_t kDepth = 5, kWidth = 4;
  const auto data = SmallNumbers<T>(200);
  for (const auto& [across, along] :
       {std::pair<int64_t, int64_t>{1, 7}, {11, 1}, {13, 2}, {0, 3}}) {
    for (const int64_t count : {1, 3, 4}) {
      std::vector<T> panel(kDepth * kWidth, 9);
      WritePanel<T>({data.data(), across, along}, count, kWidth, kDepth,
                    panel.data());
      for (int64_t d = 0; d < kDepth; ++d) {
        for (int64_t i = 0; i < kWidth; ++i) {
          EXPECT_EQ(panel[d * kWidth + i],
                    i < count ? data[i * across + d * along] : T{0})
              << "step " << d << ", element " << i << " of " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln

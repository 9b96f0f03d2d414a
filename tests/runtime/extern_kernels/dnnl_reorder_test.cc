#include "runtime/extern_kernels/dnnl_reorder.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/extern_kernels/transpose_floats.h"

namespace kiln {
namespace {

constexpr float kUntouched = -1;

TEST(TransposeFloats, CopiesWhatIsThereAndNothingElse) {
  for (const OnTheWay way : {OnTheWay::kNothing, OnTheWay::kRelu}) {
    for (const int64_t rows : {1, 7, 8, 15, 16, 17, 40}) {
      for (const int64_t columns : {1, 4, 15, 16, 33, 64}) {
        SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
        const int64_t from_step = columns + 3, to_step = rows + 5;
        std::vector<float> from(rows * from_step),
            to(columns * to_step, kUntouched);
        // Half of them below 0.
        std::iota(from.begin(), from.end(), -0.5f * rows * from_step);
        TransposeFloats(from.data(), from_step, to.data(), to_step, rows,
                        columns, way);
        for (int64_t i = 0; i < columns * to_step; ++i) {
          const int64_t row = i % to_step, column = i / to_step;
          float due = kUntouched;
          if (row < rows) due = from[row * from_step + column];
          if (row < rows && way == OnTheWay::kRelu) due = std::max(due, 0.0f);
          ASSERT_EQ(to[i], due) << row << ", " << column;
        }
      }
    }
  }
}

TEST(TransposeFloats, ReluLeavesNaNsAndNegativeZeros) {
  constexpr int64_t kSide = 17;  // a whole block, and rows beside it
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float value : {nan, -nan, -0.0f}) {
    const std::vector<float> from(kSide * kSide, value);
    std::vector<float> to(kSide * kSide);
    TransposeFloats(from.data(), kSide, to.data(), kSide, kSide, kSide,
                    OnTheWay::kRelu);
    EXPECT_EQ(std::memcmp(to.data(), from.data(), to.size() * sizeof(float)),
              0);
  }
}

struct Layout {
  std::string name;
  std::vector<int64_t> strides;
};

class DnnlReorders : public testing::Test {
 protected:
  void SetUp() override {
    auto library = DnnlLibrary::Open({});
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
  }

  dnnl_memory_desc_t Describe(const std::vector<int64_t>& sizes,
                              const std::vector<int64_t>& strides) {
    dnnl_memory_desc_t layout;
    EXPECT_EQ(library_->dnnl_memory_desc_init_by_strides(
                  &layout, static_cast<int>(sizes.size()), sizes.data(),
                  dnnl_f32, strides.data()),
              dnnl_success);
    return layout;
  }

  // Calls visit(place in `from`, place in `to`) for each element.
  template <typename Visit>
  void ForEach(const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& from, const std::vector<int64_t>& to,
               Visit visit) {
    std::vector<int64_t> at(sizes.size());
    for (;;) {
      int64_t read = 0, written = 0;
      for (size_t d = 0; d < sizes.size(); ++d) {
        read += at[d] * from[d];
        written += at[d] * to[d];
      }
      visit(read, written);
      size_t d = 0;
      while (d < sizes.size() && ++at[d] == sizes[d]) at[d++] = 0;
      if (d == sizes.size()) return;
    }
  }

  void ExpectCopied(const std::vector<int64_t>& sizes, const Layout& from,
                    const Layout& to) {
    SCOPED_TRACE(from.name + " to " + to.name);
    const DnnlLibrary::SingleThread alone(*library_);
    const auto reorder = DnnlReorder::Create(
        library_, Describe(sizes, from.strides), Describe(sizes, to.strides));
    ASSERT_TRUE(reorder.ok()) << reorder.status();
    constexpr int64_t kRoom = 1 << 16;
    std::vector<float> read(kRoom), written(kRoom, kUntouched);
    std::iota(read.begin(), read.end(), 0.0f);
    std::vector<float> due = written;
    ForEach(sizes, from.strides, to.strides,
            [&](int64_t i, int64_t o) { due[o] = read[i]; });
    ASSERT_EQ((*reorder)->Execute(read.data(), written.data()),
              absl::OkStatus());
    EXPECT_EQ(written, due);
  }

  std::shared_ptr<const DnnlLibrary> library_;
};

TEST_F(DnnlReorders, CopyBetweenAllLayoutsOfImages) {
  const Layout layouts[] = {
      {"channels first", {3 * 20 * 35, 35, 7, 1}},
      {"channels last", {20 * 35, 1, 140, 20}},
      {"channels last, with room between pixels", {24 * 35, 1, 168, 24}},
      {"channels first, with room between rows", {20 * 40, 40, 8, 1}},
      {"columns before rows", {20 * 35, 35, 1, 5}},
      {"a step between channels", {40 * 35, 2, 280, 40}}};
  for (const Layout& from : layouts)
    for (const Layout& to : layouts) ExpectCopied({3, 20, 5, 7}, from, to);
}

TEST_F(DnnlReorders, CopyImagesOfOneAndOfThreeDimensions) {
  const Layout first = {"channels first", {17 * 33, 33, 1}};
  const Layout last = {"channels last", {17 * 33, 1, 17}};
  ExpectCopied({2, 17, 33}, first, last);
  ExpectCopied({2, 17, 33}, last, first);
  const Layout deep_first = {"channels first", {17 * 24, 24, 12, 4, 1}};
  const Layout deep_last = {"channels last", {17 * 24, 1, 204, 68, 17}};
  ExpectCopied({2, 17, 2, 3, 4}, deep_first, deep_last);
  ExpectCopied({2, 17, 2, 3, 4}, deep_last, deep_first);
}

TEST_F(DnnlReorders, LeaveBlockedLayoutsToTheLibrary) {
  const std::vector<int64_t> sizes = {2, 16, 3, 5};
  const dnnl_memory_desc_t plain = Describe(sizes, {240, 15, 5, 1});
  dnnl_memory_desc_t blocked;
  ASSERT_EQ(library_->dnnl_memory_desc_init_by_tag(&blocked, 4, sizes.data(),
                                                   dnnl_f32, dnnl_nChw8c),
            dnnl_success);
  const DnnlLibrary::SingleThread alone(*library_);
  const auto there = DnnlReorder::Create(library_, plain, blocked);
  const auto back = DnnlReorder::Create(library_, blocked, plain);
  ASSERT_TRUE(there.ok() && back.ok());
  std::vector<float> read(480), between(480), written(480);
  std::iota(read.begin(), read.end(), 0.0f);
  ASSERT_EQ((*there)->Execute(read.data(), between.data()), absl::OkStatus());
  EXPECT_EQ(between[1], read[15]);  // the next channel's first pixel
  ASSERT_EQ((*back)->Execute(between.data(), written.data()), absl::OkStatus());
  EXPECT_EQ(written, read);
}

}  // namespace
}  // namespace kiln

#include "runtime/extern_kernels/convolution_steps.h"

#include "gtest/gtest.h"

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

// 4 images of 56 x 56 with `channels` in and 64 out, dense and channels-last.
ConvolutionProblem ChannelsLast(int64_t channels, int64_t window) {
  constexpr int64_t kSide = 56, kResults = 64;
  ConvolutionProblem p;
  p.batch = 4;
  p.image_channels = channels;
  p.result_channels = kResults;
  for (int i = 0; i < 2; ++i) {
    p.image[i] = p.result[i] = kSide;
    p.window[i] = window;
    p.padding[i] = window / 2;
  }
  const auto lay = [](int64_t count, int64_t* strides) {
    strides[0] = kSide * kSide * count;
    strides[1] = 1;
    strides[2] = kSide * count;
    strides[3] = count;
  };
  lay(p.image_channels, p.image_strides);
  lay(p.result_channels, p.result_strides);
  return p;
}

TEST(ConvolutionStepsTest, WindowsOfOnePixelOrChannelAreComputedAsTheyLie) {
  EXPECT_TRUE(IsComputedAsItLies(ChannelsLast(256, 1), /*has_avx512=*/false));
  EXPECT_FALSE(IsComputedAsItLies(ChannelsLast(256, 3), /*has_avx512=*/false));
  EXPECT_TRUE(IsComputedAsItLies(ChannelsLast(256, 3), /*has_avx512=*/true));
  ConvolutionProblem depthwise = ChannelsLast(64, 3);
  depthwise.groups = 64;
  EXPECT_TRUE(IsComputedAsItLies(depthwise, /*has_avx512=*/false));
  ConvolutionProblem first = ChannelsLast(256, 1);
  first.image_strides[1] = 56 * 56;
  first.image_strides[2] = 56;
  first.image_strides[3] = 1;
  EXPECT_FALSE(IsComputedAsItLies(first, /*has_avx512=*/true));
}

TEST(ConvolutionStepsTest, RowsThatFitInACoresCache) {
  const ConvolutionProblem p = ChannelsLast(256, 1);
  const ConvolutionProblem cut = InRows(p);
  EXPECT_EQ(cut.image[0], 14);  // of 56 times 320 elements: 980 KiB
  EXPECT_EQ(cut.result[0], 14);
  EXPECT_EQ(cut.image[1], 56);
  EXPECT_EQ(cut.batch, 16);
  EXPECT_EQ(cut.image_strides[0], 14 * p.image_strides[2]);
  EXPECT_EQ(cut.result_strides[0], 14 * p.result_strides[2]);
  EXPECT_EQ(ImagesAtATime(cut, 8), 1);
  // All else is what it was.
  ConvolutionProblem back = cut;
  back.batch = 4;
  back.image[0] = back.result[0] = 56;
  back.image_strides[0] = p.image_strides[0];
  back.result_strides[0] = p.result_strides[0];
  EXPECT_EQ(back, p);
}

TEST(ConvolutionStepsTest, ImagesThatFitStayWhole) {
  const ConvolutionProblem p = ChannelsLast(8, 1);
  EXPECT_EQ(InRows(p), p);
  EXPECT_EQ(ImagesAtATime(p, 4), 1);
}

TEST(ConvolutionStepsTest, ImagesWhoseRowsDependOnOthersOrLieApartStayWhole) {
  EXPECT_EQ(InRows(ChannelsLast(256, 3)), ChannelsLast(256, 3));
  ConvolutionProblem strided = ChannelsLast(256, 1);
  strided.stride[0] = strided.stride[1] = 2;
  EXPECT_EQ(InRows(strided), strided);
  ConvolutionProblem apart = ChannelsLast(256, 1);
  apart.image_strides[0] += 64;
  EXPECT_EQ(InRows(apart), apart);
  ConvolutionProblem gradient = ChannelsLast(256, 1);
  gradient.wanted = Wanted::kImage;
  EXPECT_EQ(InRows(gradient), gradient);
}

}  // namespace
}  // namespace kiln

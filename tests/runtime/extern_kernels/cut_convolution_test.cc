#include "runtime/extern_kernels/cut_convolution.h"

#include <array>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

struct Row {
  int64_t batch, channels, groups, threads;
  size_t pieces;
  bool channels_last = false;
  Wanted wanted = Wanted::kResult;
};

// Of one row, and as many channels of the image as of the result.
ConvolutionProblem ProblemOf(const Row& row) {
  constexpr int64_t kPixels = 100;
  ConvolutionProblem p;
  p.wanted = row.wanted;
  p.batch = row.batch;
  p.groups = row.groups;
  p.image_channels = p.result_channels = row.channels;
  p.image_strides[1] = p.result_strides[1] = row.channels_last ? 1 : kPixels;
  p.weight_strides[0] = row.channels / row.groups;
  p.weight_strides[1] = 1;
  return p;
}

size_t PiecesOf(const ConvolutionProblem& p, int64_t threads) {
  return CutConvolution(p, threads).size();
}

TEST(CutConvolutionTest, ByChannelsWhereImagesDoNotComeOutEven) {
  const Row kRows[] = {
      {.batch = 1, .channels = 64, .groups = 1, .threads = 2, .pieces = 2},
      {.batch = 2, .channels = 64, .groups = 1, .threads = 2, .pieces = 1},
      {.batch = 3, .channels = 64, .groups = 1, .threads = 2, .pieces = 2},
      {.batch = 5, .channels = 64, .groups = 1, .threads = 2, .pieces = 1},
      // Three blocks of 16 channels come out no more even than three images.
      {.batch = 3, .channels = 48, .groups = 1, .threads = 2, .pieces = 1},
      // Four blocks are too few for eight threads; 16 are not.
      {.batch = 9, .channels = 64, .groups = 1, .threads = 8, .pieces = 1},
      {.batch = 9, .channels = 256, .groups = 1, .threads = 8, .pieces = 8},
      {.batch = 7, .channels = 64, .groups = 1, .threads = 8, .pieces = 1},
      {.batch = 3, .channels = 64, .groups = 4, .threads = 2, .pieces = 2},
      {.batch = 3, .channels = 64, .groups = 64, .threads = 2, .pieces = 2},
      {.batch = 3,
       .channels = 64,
       .groups = 64,
       .threads = 2,
       .pieces = 1,
       .channels_last = true},
      {.batch = 3,
       .channels = 64,
       .groups = 4,
       .threads = 2,
       .pieces = 1,
       .channels_last = true},
      {.batch = 3, .channels = 63, .groups = 3, .threads = 2, .pieces = 1},
      {.batch = 3,
       .channels = 64,
       .groups = 1,
       .threads = 2,
       .pieces = 2,
       .wanted = Wanted::kImage},
      {.batch = 3,
       .channels = 64,
       .groups = 1,
       .threads = 2,
       .pieces = 1,
       .channels_last = true,
       .wanted = Wanted::kImage},
      // One image is not left to one thread, though its slabs are copied.
      {.batch = 1,
       .channels = 64,
       .groups = 4,
       .threads = 2,
       .pieces = 2,
       .channels_last = true},
      {.batch = 1,
       .channels = 64,
       .groups = 64,
       .threads = 2,
       .pieces = 2,
       .channels_last = true},
      {.batch = 1,
       .channels = 64,
       .groups = 1,
       .threads = 2,
       .pieces = 2,
       .channels_last = true,
       .wanted = Wanted::kImage},
      // A sum over the images: they are not shared out.
      {.batch = 4,
       .channels = 64,
       .groups = 1,
       .threads = 2,
       .pieces = 2,
       .wanted = Wanted::kWeights},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message()
                 << row.batch << " images, " << row.channels << " channels, "
                 << row.groups << " groups, " << row.threads << " threads");
    EXPECT_EQ(PiecesOf(ProblemOf(row), row.threads), row.pieces);
  }
}

TEST(CutConvolutionTest, PiecesHaveAllChannelsOnce) {
  const std::vector<ConvolutionCut> cuts = CutConvolution(
      ProblemOf({.batch = 3, .channels = 120, .groups = 1, .threads = 2}), 2);
  ASSERT_EQ(cuts.size(), 2);
  EXPECT_EQ(cuts[0].problem.result_channels, 64);
  EXPECT_EQ(cuts[1].problem.result_channels, 56);
  EXPECT_EQ(cuts[1].problem.image_channels, 120);
  EXPECT_EQ(cuts[1].problem.batch, 3);
  EXPECT_EQ(cuts[1].starts, (std::array<int64_t, 5>{0, 64 * 120, 6400, 64, 0}));
}

// A 3 x 3 window on square images of `side`, padded by one; 64 channels, in NCHW.
ConvolutionProblem Padded(int64_t batch, int64_t side, int64_t stride = 1) {
  ConvolutionProblem p;
  p.batch = batch;
  p.image_channels = p.result_channels = 64;
  const auto lay = [](int64_t extent, int64_t* extents, int64_t* strides) {
    extents[0] = extents[1] = extent;
    strides[0] = 64 * extent * extent;
    strides[1] = extent * extent;
    strides[2] = extent;
    strides[3] = 1;
  };
  lay(side, p.image, p.image_strides);
  lay((side - 1) / stride + 1, p.result, p.result_strides);
  for (int i = 0; i < 2; ++i) {
    p.window[i] = 3;
    p.padding[i] = 1;
    p.stride[i] = stride;
  }
  return p;
}

TEST(CutConvolutionTest, RowsWithThoseThatTheirWindowsReach) {
  const std::vector<ConvolutionCut> cuts = CutConvolution(Padded(3, 56, 2), 2);
  ASSERT_EQ(cuts.size(), 2);
  const ConvolutionProblem& top = cuts[0].problem;
  EXPECT_EQ(top.result[0], 14);
  EXPECT_EQ(top.image[0], 28);  // -1 to 27
  EXPECT_EQ(top.padding[0], 1);
  EXPECT_EQ(cuts[0].starts, (std::array<int64_t, 5>{}));
  const ConvolutionProblem& bottom = cuts[1].problem;
  EXPECT_EQ(bottom.result[0], 14);
  EXPECT_EQ(bottom.image[0], 29);  // 27 to 55
  EXPECT_EQ(bottom.padding[0], 0);
  EXPECT_EQ(cuts[1].starts,
            (std::array<int64_t, 5>{27 * 56, 0, 14 * 28, 0, 0}));
  EXPECT_EQ(bottom.image[1], 56);
  EXPECT_EQ(bottom.padding[1], 1);
  EXPECT_EQ(bottom.batch, 3);
  EXPECT_EQ(cuts[1].most_images, 1);
}

TEST(CutConvolutionTest, AsFewRowsAsComeOutEven) {
  EXPECT_EQ(PiecesOf(Padded(1, 56), 2), 2);
  EXPECT_EQ(PiecesOf(Padded(2, 56), 2), 1);
  EXPECT_EQ(PiecesOf(Padded(5, 56), 2), 2);
  EXPECT_EQ(PiecesOf(Padded(3, 56), 8), 5);  // of 12 rows, two rounds of eight
  // An image and its result that no cache holds.
  EXPECT_EQ(PiecesOf(Padded(2, 224), 2), 4);
  // Each piece would read all of more weights than an image has elements.
  ConvolutionProblem heavy = Padded(1, 56);
  heavy.result_channels = 4096;
  EXPECT_EQ(CutConvolution(heavy, 2)[0].problem.result_channels, 4096);
  heavy.image[0] = heavy.image[1] = heavy.result[0] = heavy.result[1] = 10;
  EXPECT_EQ(CutConvolution(heavy, 2)[0].problem.result_channels, 2048);
  // A piece would read less than four times the rows that a window reaches: channels.
  const std::vector<ConvolutionCut> small = CutConvolution(Padded(3, 14), 2);
  ASSERT_EQ(small.size(), 2);
  EXPECT_EQ(small[0].problem.result[0], 14);
  EXPECT_EQ(small[0].problem.result_channels, 32);
}

// Behind images of one row, the padding alone makes rows of the result.
TEST(CutConvolutionTest, RowsOfPaddingAloneAreNotCutOff) {
  ConvolutionProblem p = Padded(1, 1);
  p.result_channels = 16;
  p.window[0] = 1;
  p.padding[0] = 20;
  p.result[0] = 41;
  EXPECT_EQ(PiecesOf(p, 4), 1);
}

TEST(CutConvolutionTest, ImagesOneAtATimeWhereTheyDoNotComeOutEven) {
  EXPECT_EQ(CutConvolution(Padded(8, 8), 4)[0].most_images, 2);
  EXPECT_EQ(CutConvolution(Padded(10, 8), 4)[0].most_images, 1);
}

// Whole channels-last images of groups are computed as they lie: neither slabs nor, if they
// are large, rows.
TEST(CutConvolutionTest, LargeImagesInGroupsStayWhole) {
  ConvolutionProblem p = Padded(2, 224);
  p.groups = 4;
  EXPECT_EQ(PiecesOf(p, 2), 1);
  for (int64_t* const strides : {p.image_strides, p.result_strides}) {
    strides[1] = 1;
    strides[2] = 224 * 64;
    strides[3] = 64;
  }
  EXPECT_EQ(PiecesOf(p, 2), 1);
}

// Those that cpu_convolution_test.cc compares with other kernels, on its two threads.
TEST(CutConvolutionTest, ShapesOfOtherTestsAreCut) {
  ConvolutionProblem slabs = Padded(3, 6);
  slabs.result_channels = 60;
  slabs.image[1] = slabs.result[1] = 5;
  EXPECT_EQ(PiecesOf(slabs, 2), 2);
  slabs.wanted = Wanted::kImage;
  EXPECT_EQ(PiecesOf(slabs, 2), 2);
  ConvolutionProblem rows = Padded(3, 37);
  rows.image_channels = rows.result_channels = 16;
  rows.image[1] = 5;
  rows.result[1] = 7;
  rows.padding[0] = rows.padding[1] = 2;
  rows.result[0] = 39;
  EXPECT_EQ(PiecesOf(rows, 2), 2);
}

}  // namespace
}  // namespace kiln

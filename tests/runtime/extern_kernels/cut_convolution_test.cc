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

// As many channels of the image as of the result.
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
       .groups = 1,
       .threads = 2,
       .pieces = 2,
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
    EXPECT_EQ(CutConvolution(ProblemOf(row), row.threads).size(), row.pieces);
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

}  // namespace
}  // namespace kiln

#include "runtime/extern_kernels/cut_convolution.h"

#include <algorithm>

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;
using Cut = ConvolutionCut;

// Channels that a cut between threads keeps together: what oneDNN's blocked
// layouts hold in one block.
constexpr int64_t kChannelBlock = 16;

// What the same work takes in slabs of the channels, against whole images: all slabs
// read all of an image. Source: with two threads on an EPYC with AVX-512, 3 images take
// 0.70 to 0.86 of their time in slabs, 5 take 1.00 (bench/records/cpu_kernels.md).
constexpr double kSlabOverhead = 1.2;

// Channels [begin, begin + count) of the result (or image) of one group.
Cut CutChannels(const ConvolutionProblem& p, int64_t begin, int64_t count) {
  Cut cut;
  cut.problem = p;
  if (p.wanted == Wanted::kImage) {
    cut.problem.image_channels = count;
    cut.starts = {begin * p.image_strides[1], begin * p.weight_strides[1], 0,
                  begin * p.bias_stride, 0};
  } else {
    cut.problem.result_channels = count;
    cut.starts = {0, begin * p.weight_strides[0], begin * p.result_strides[1],
                  begin * p.bias_stride, begin * p.added_strides[1]};
  }
  return cut;
}

Cut CutGroups(const ConvolutionProblem& p, int64_t begin, int64_t count) {
  const int64_t image_channels = p.image_channels / p.groups;
  const int64_t result_channels = p.result_channels / p.groups;
  Cut cut;
  cut.problem = p;
  cut.problem.groups = count;
  cut.problem.image_channels = count * image_channels;
  cut.problem.result_channels = count * result_channels;
  const int64_t bias_channels =
      p.wanted == Wanted::kImage ? image_channels : result_channels;
  cut.starts = {begin * image_channels * p.image_strides[1],
                begin * result_channels * p.weight_strides[0],
                begin * result_channels * p.result_strides[1],
                begin * bias_channels * p.bias_stride,
                begin * result_channels * p.added_strides[1]};
  return cut;
}

// Whether slabs of the channels of all images, at most one for each thread, end before
// whole images, of which some threads may have one more. Depthwise slabs of
// channels-last images have gaps between their pixels, which costs more.
bool SlabsEndFirst(const ConvolutionProblem& p, int64_t units,
                   int64_t threads) {
  if (p.groups == p.image_channels && p.image_strides[1] == 1) {
    return p.batch < threads;
  }
  const int64_t most_images = (p.batch + threads - 1) / threads;
  const int64_t most_units = (units + threads - 1) / threads;
  return most_images * units > kSlabOverhead * p.batch * most_units;
}

}  // namespace

std::vector<ConvolutionCut> CutConvolution(const ConvolutionProblem& p,
                                           int64_t threads) {
  Cut (*make)(const ConvolutionProblem&, int64_t, int64_t) = CutGroups;
  int64_t count = p.groups;
  int64_t unit = p.groups == p.image_channels ? kChannelBlock : 1;
  if (p.groups == 1) {
    make = CutChannels;
    count = p.wanted == Wanted::kImage ? p.image_channels : p.result_channels;
    unit = kChannelBlock;
  }
  const int64_t units = (count + unit - 1) / unit;
  const bool batch_is_summed = p.wanted == Wanted::kWeights;
  if (!batch_is_summed && !SlabsEndFirst(p, units, threads))
    return {Cut{{}, p}};
  const int64_t each =
      std::max<int64_t>(1, (units + threads - 1) / threads) * unit;
  std::vector<Cut> cuts;
  for (int64_t begin = 0; begin < count; begin += each) {
    cuts.push_back(make(p, begin, std::min(each, count - begin)));
  }
  return cuts;
}

}  // namespace kiln

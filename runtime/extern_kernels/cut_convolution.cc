#include "runtime/extern_kernels/cut_convolution.h"

#include <algorithm>

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;
using Cut = ConvolutionCut;

// Channels that a cut between threads keeps together: what oneDNN's blocked
// layouts hold in one block.
constexpr int64_t kChannelBlock = 16;

// What the same work takes in pieces, against small whole images on as many threads. Measured
// in bench/records/cpu_kernels.md, "Images that threads share out"; the limits below lie
// between what gained there and what lost. Rows between two pieces may be copied for both.
// All slabs of the channels read all of an image, those of groups only their own part.
// Where whole channels-last images are computed as they lie, slabs have gaps between their
// pixels and are copied.
constexpr double kRowsOverhead = 1.05;
constexpr double kRowsOfGroupsOverhead = 1.3;  // not channels-last
constexpr double kSlabOverhead = 1.2;
constexpr double kSlabOfGroupsOverhead = 1;
constexpr double kGapsOverhead = 1.5;
// More elements of an image and its result do not stay in a core's caches.
constexpr double kLargeOverhead = 1.15;
constexpr int64_t kLargeElements = 1 << 21;
// Every piece of rows reads all weights: so many times an image and its result at most.
constexpr int64_t kMostWeights = 2;
// A piece reads at least so many times the rows that a window reaches behind its first.
constexpr int64_t kRowsOfReach = 4;

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

// Rows [begin, begin + count) of the result, and those of the image that they read, of
// which there are some.
Cut CutRows(const ConvolutionProblem& p, int64_t begin, int64_t count) {
  const int64_t first = begin * p.stride[0] - p.padding[0];
  const int64_t last =
      first + (count - 1) * p.stride[0] + (p.window[0] - 1) * p.dilation[0];
  const int64_t from = std::max<int64_t>(first, 0);
  const int64_t to = std::min(last + 1, p.image[0]);
  Cut cut;
  cut.problem = p;
  cut.problem.padding[0] = from - first;
  cut.problem.image[0] = to - from;
  cut.problem.result[0] = count;
  cut.starts = {from * p.image_strides[2], 0, begin * p.result_strides[2], 0,
                begin * p.added_strides[2]};
  return cut;
}

int64_t DividedUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool IsDepthwise(const ConvolutionProblem& p) {
  return p.groups == p.image_channels;
}
bool IsInGroups(const ConvolutionProblem& p) {
  return p.groups > 1 && !IsDepthwise(p);
}
bool IsChannelsLast(const ConvolutionProblem& p) {
  return p.image_channels > 1 && p.image_strides[1] == 1;
}

// Rows of the result in each piece, all of them of a whole image, and when the last of the
// threads ends, in images.
struct Rows {
  int64_t each = 0;
  double end = 0;
};

// As many rows in each piece as may be, so that it ends early and is not large.
Rows ChooseRows(const ConvolutionProblem& p, int64_t threads) {
  const int64_t rows = p.result[0];
  const int64_t elements = p.image_channels * PlacesOf(p.image) +
                           p.result_channels * PlacesOf(p.result);
  const int64_t weights =
      p.image_channels / p.groups * p.result_channels * PlacesOf(p.window);
  const bool is_large = elements > kLargeElements && !IsInGroups(p);
  Rows best = {rows, (is_large ? kLargeOverhead : 1) *
                         static_cast<double>(DividedUp(p.batch, threads))};
  const int64_t reach = (p.window[0] - 1) * p.dilation[0];
  // With more padding a piece might read no row of the image.
  if (p.wanted != Wanted::kResult || p.padding[0] > reach ||
      weights > kMostWeights * elements) {
    return best;
  }
  const double overhead = IsInGroups(p) && !IsChannelsLast(p)
                              ? kRowsOfGroupsOverhead
                              : kRowsOverhead;
  const int64_t least =
      std::max<int64_t>(DividedUp(kRowsOfReach * reach, p.stride[0]), 1);
  const int64_t fewest = is_large ? DividedUp(elements, kLargeElements) : 2;
  for (int64_t pieces = fewest; pieces < fewest + threads; ++pieces) {
    const int64_t each = DividedUp(rows, pieces);
    if (each < least) break;
    const double steps = static_cast<double>(
        DividedUp(p.batch * DividedUp(rows, each), threads));
    const double end = overhead * steps * static_cast<double>(each) /
                       static_cast<double>(rows);
    // More pieces are to gain a twentieth.
    if (end < 0.95 * best.end) best = {each, end};
  }
  return best;
}

// Channels, or groups, of which a piece has whole units.
struct Slabs {
  explicit Slabs(const ConvolutionProblem& p) {
    if (p.groups == 1) {
      count = p.wanted == Wanted::kImage ? p.image_channels : p.result_channels;
    } else {
      make = CutGroups;
      count = p.groups;
      if (!IsDepthwise(p)) unit = 1;
    }
    if (IsInGroups(p)) overhead = kSlabOfGroupsOverhead;
    if (IsChannelsLast(p) && (p.groups > 1 || p.wanted == Wanted::kImage))
      overhead = kGapsOverhead;
  }
  int64_t Each(int64_t threads) const {
    return std::max<int64_t>(1, DividedUp(DividedUp(count, unit), threads)) *
           unit;
  }
  // In images, as that of Rows.
  double EndOf(const ConvolutionProblem& p, int64_t threads) const {
    return overhead * static_cast<double>(p.batch * Each(threads)) /
           static_cast<double>(DividedUp(count, unit) * unit);
  }

  Cut (*make)(const ConvolutionProblem&, int64_t, int64_t) = CutChannels;
  int64_t count = 0;
  int64_t unit = kChannelBlock;
  double overhead = kSlabOverhead;
};

}  // namespace

std::vector<ConvolutionCut> CutConvolution(const ConvolutionProblem& p,
                                           int64_t threads) {
  const Slabs slabs(p);
  const Rows rows = ChooseRows(p, threads);
  std::vector<Cut> cuts;
  if (p.wanted == Wanted::kWeights || slabs.EndOf(p, threads) < rows.end) {
    const int64_t each = slabs.Each(threads);
    for (int64_t begin = 0; begin < slabs.count; begin += each) {
      cuts.push_back(slabs.make(p, begin, std::min(each, slabs.count - begin)));
      cuts.back().most_images = std::max<int64_t>(p.batch, 1);
    }
    return cuts;
  }
  if (rows.each == p.result[0]) {
    const bool even = p.batch % threads == 0;
    return {{{}, p, even ? std::max<int64_t>(p.batch / threads, 1) : 1}};
  }
  for (int64_t begin = 0; begin < p.result[0]; begin += rows.each)
    cuts.push_back(CutRows(p, begin, std::min(rows.each, p.result[0] - begin)));
  return cuts;
}

}  // namespace kiln

#include "runtime/extern_kernels/cut_convolution.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;
using Cut = ConvolutionCut;

// Channels that a cut between threads keeps together: what oneDNN's blocked
// layouts hold in one block.
constexpr int64_t kChannelBlock = 16;

// What the same work takes against whole images. Source, as of the next two:
// bench/records/cpu_kernels.md, "Images that do not come out even". Rows of an image are
// copied for both pieces that read them. All slabs of the channels read all of an image,
// but those of groups their own part; depthwise slabs of channels-last images have gaps
// between their pixels.
constexpr double kRowsOverhead = 1.05;
constexpr double kSlabOverhead = 1.2;
constexpr double kGapsOverhead = 2;
// So many elements of an image and its result stay in the caches of a core.
constexpr int64_t kMostElements = 1 << 21;
// Every piece of rows reads all weights: so many times an image and its result at most.
constexpr int64_t kMostWeights = 2;
// A piece has so many times the rows that it shares with the next.
constexpr int64_t kRowsOfShared = 4;

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

// Rows [begin, begin + count) of the result, and those of the image that they read;
// none where these are only padding.
std::optional<Cut> CutRows(const ConvolutionProblem& p, int64_t begin,
                           int64_t count) {
  const int64_t first = begin * p.stride[0] - p.padding[0];
  const int64_t last =
      first + (count - 1) * p.stride[0] + (p.window[0] - 1) * p.dilation[0];
  const int64_t from = std::max<int64_t>(first, 0);
  const int64_t to = std::min(last + 1, p.image[0]);
  if (to <= from) return std::nullopt;
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

// When the last of `threads` ends that share out `pieces` of each image, in images.
double EndOf(const ConvolutionProblem& p, int64_t pieces, int64_t threads) {
  return (pieces > 1 ? kRowsOverhead : 1) *
         static_cast<double>(DividedUp(p.batch * pieces, threads)) /
         static_cast<double>(pieces);
}

// Into how many pieces of rows an image goes: as few as fit in caches and end early.
int64_t RowPieces(const ConvolutionProblem& p, int64_t threads) {
  const int64_t shared = (p.window[0] - 1) * p.dilation[0];
  const int64_t least_rows = std::max<int64_t>(kRowsOfShared * shared, 1);
  const int64_t most = p.result[0] * p.stride[0] / least_rows;
  const int64_t elements = p.image_channels * PlacesOf(p.image) +
                           p.result_channels * PlacesOf(p.result);
  const int64_t weights =
      p.image_channels / p.groups * p.result_channels * PlacesOf(p.window);
  const bool few_weights = weights <= kMostWeights * elements;
  if (p.wanted != Wanted::kResult || most <= 1 || !few_weights) return 1;
  int64_t best = std::min(DividedUp(elements, kMostElements), most);
  for (int64_t pieces = best + 1; pieces <= std::min(most, best + threads);
       ++pieces) {
    if (EndOf(p, pieces, threads) < 0.95 * EndOf(p, best, threads))
      best = pieces;
  }
  return best;
}

// None where a piece would have no rows of the image.
std::vector<Cut> CutAllRows(const ConvolutionProblem& p, int64_t pieces) {
  const int64_t each = DividedUp(p.result[0], pieces);
  std::vector<Cut> cuts;
  for (int64_t begin = 0; begin < p.result[0]; begin += each) {
    std::optional<Cut> cut =
        CutRows(p, begin, std::min(each, p.result[0] - begin));
    if (!cut.has_value()) return {};
    cuts.push_back(*std::move(cut));
  }
  return cuts;
}

// Channels, or groups, of which a piece has whole units.
struct Slabs {
  explicit Slabs(const ConvolutionProblem& p) {
    const bool depthwise = p.groups == p.image_channels;
    if (p.groups == 1) {
      count = p.wanted == Wanted::kImage ? p.image_channels : p.result_channels;
    } else {
      make = CutGroups;
      count = p.groups;
      unit = depthwise ? kChannelBlock : 1;
      if (!depthwise) overhead = 1;
      if (depthwise && p.image_strides[1] == 1) overhead = kGapsOverhead;
    }
  }
  int64_t Each(int64_t threads) const {
    return std::max<int64_t>(1, DividedUp(DividedUp(count, unit), threads)) *
           unit;
  }
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
  const int64_t pieces = RowPieces(p, threads);
  std::vector<Cut> cuts;
  if (p.wanted == Wanted::kWeights ||
      slabs.EndOf(p, threads) < EndOf(p, pieces, threads)) {
    const int64_t each = slabs.Each(threads);
    for (int64_t begin = 0; begin < slabs.count; begin += each) {
      cuts.push_back(slabs.make(p, begin, std::min(each, slabs.count - begin)));
      cuts.back().most_images = std::max<int64_t>(p.batch, 1);
    }
    return cuts;
  }
  if (pieces > 1) cuts = CutAllRows(p, pieces);
  if (cuts.empty())
    cuts.push_back({{}, p, std::max<int64_t>(p.batch / threads, 1)});
  return cuts;
}

}  // namespace kiln

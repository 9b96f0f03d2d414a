#include "runtime/extern_kernels/convolution_steps.h"

#include <algorithm>

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

int64_t NumPixels(const ConvolutionProblem& p, const int64_t* extents) {
  int64_t pixels = 1;
  for (int i = 0; i < p.spatial; ++i) pixels *= extents[i];
  return pixels;
}

// A slab of some of the channels has gaps, which oneDNN's fast loops refuse.
bool IsDenseChannelsLast(const ConvolutionProblem& p, int64_t channels,
                         const int64_t* extents, const int64_t* strides) {
  if (channels == 1 || strides[1] != 1) return false;
  int64_t due = channels;
  for (int i = p.spatial - 1; i >= 0; --i) {
    if (strides[2 + i] != due) return false;
    due *= extents[i];
  }
  return true;
}

bool AreDenseChannelsLast(const ConvolutionProblem& p) {
  return IsDenseChannelsLast(p, p.image_channels, p.image, p.image_strides) &&
         IsDenseChannelsLast(p, p.result_channels, p.result, p.result_strides);
}

bool HasWindowOfOnePixel(const ConvolutionProblem& p) {
  return NumPixels(p, p.window) == 1;
}

bool HasWindowForEachChannel(const ConvolutionProblem& p) {
  return p.groups == p.image_channels && p.groups == p.result_channels;
}

// The largest divisor of `count` that is at most `most` (>= 1).
int64_t DivisorOf(int64_t count, int64_t most) {
  int64_t divisor = std::clamp<int64_t>(most, 1, std::max<int64_t>(count, 1));
  while (count % divisor != 0) --divisor;
  return divisor;
}

// What an image and its result should not exceed.
int64_t ElementsAtATime(const ConvolutionProblem& p) {
  constexpr int64_t kOwnCacheBytes = 1 << 20;
  const int64_t weights =
      p.image_channels / p.groups * p.result_channels * NumPixels(p, p.window);
  return std::max(kOwnCacheBytes / SizeInBytes(p.dtype), 2 * weights);
}

int64_t ElementsOfOne(const ConvolutionProblem& p) {
  return p.image_channels * NumPixels(p, p.image) +
         p.result_channels * NumPixels(p, p.result);
}

}  // namespace

bool IsComputedAsItLies(const ConvolutionProblem& p, bool has_avx512) {
  const bool suits = HasWindowForEachChannel(p) ||
                     (p.groups == 1 && HasWindowOfOnePixel(p));
  return AreDenseChannelsLast(p) &&
         (suits || has_avx512 || p.wanted != Wanted::kResult);
}

ConvolutionProblem InRows(const ConvolutionProblem& p) {
  bool each_pixel = p.wanted == Wanted::kResult && HasWindowOfOnePixel(p);
  for (int i = 0; i < p.spatial; ++i) {
    each_pixel = each_pixel && p.stride[i] == 1 && p.padding[i] == 0;
  }
  const int64_t rows = p.image[0];
  const bool dense =
      AreDenseChannelsLast(p) &&
      (p.batch == 1 || (p.image_strides[0] == rows * p.image_strides[2] &&
                        p.result_strides[0] == rows * p.result_strides[2] &&
                        (!p.has_added || p.added_strides[0] ==
                                             rows * p.added_strides[2])));
  if (!each_pixel || !dense || rows == 0) return p;
  const int64_t row = std::max<int64_t>(ElementsOfOne(p) / rows, 1);
  const int64_t count = DivisorOf(rows, ElementsAtATime(p) / row);
  ConvolutionProblem cut = p;
  cut.batch *= rows / count;
  cut.image[0] = cut.result[0] = count;
  cut.image_strides[0] = count * p.image_strides[2];
  cut.result_strides[0] = count * p.result_strides[2];
  if (p.has_added) cut.added_strides[0] = count * p.added_strides[2];
  return cut;
}

int64_t ImagesAtATime(const ConvolutionProblem& p, int64_t most) {
  if (p.wanted == Wanted::kWeights) return p.batch;
  const int64_t one = std::max<int64_t>(ElementsOfOne(p), 1);
  return DivisorOf(p.batch, std::min(most, ElementsAtATime(p) / one));
}

}  // namespace kiln

#include <algorithm>
#include <vector>

#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/plain_kernels.h"
#include "runtime/extern_kernels/tiled_convolution.h"

namespace kiln {
namespace {

constexpr int kSpatial = ConvolutionProblem::kMaxSpatial;

// The element at (first, second, spatial...) of a tensor with these strides.
int64_t At(const int64_t* strides, int64_t first, int64_t second,
           const int64_t* place) {
  int64_t offset = first * strides[0] + second * strides[1];
  for (int i = 0; i < kSpatial; ++i) offset += place[i] * strides[2 + i];
  return offset;
}

// Calls visit(place) for each place in a box; dimensions that are not in use
// have extent 1.
template <typename Visit>
void ForEachPlace(const int64_t* extents, const Visit& visit) {
  int64_t place[kSpatial];
  for (place[0] = 0; place[0] < extents[0]; ++place[0]) {
    for (place[1] = 0; place[1] < extents[1]; ++place[1]) {
      for (place[2] = 0; place[2] < extents[2]; ++place[2]) visit(place);
    }
  }
}

// Of a place in a dense box.
int64_t PlaceIn(const int64_t* extents, const int64_t* place) {
  return (place[0] * extents[1] + place[1]) * extents[2] + place[2];
}

// to[x * to_step] += from[x * from_step] * factor
template <typename T>
void AddScaled(const T* from, int64_t from_step, double factor, int64_t count,
               double* to, int64_t to_step) {
  if (from_step == 1 && to_step == 1) {  // in vectors
    for (int64_t x = 0; x < count; ++x) to[x] += double{from[x]} * factor;
    return;
  }
  for (int64_t x = 0; x < count; ++x)
    to[x * to_step] += double{from[x * from_step]} * factor;
}

template <typename T>
class PlainConvolution final : public PreparedCall {
 public:
  PlainConvolution(const ConvolutionProblem& problem, ThreadPool& threads)
      : p_(problem), threads_(threads) {}

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    const Work work{this,
                    static_cast<T*>(buffers.operand[0]),
                    static_cast<T*>(buffers.operand[1]),
                    static_cast<T*>(buffers.operand[2]),
                    static_cast<const T*>(buffers.operand[kBiasOperand]),
                    static_cast<const T*>(buffers.operand[kAddedOperand])};
    threads_.ParallelFor(
        Planes(), 1,
        [](void* context, int64_t begin, int64_t end) {
          const Work& work = *static_cast<const Work*>(context);
          for (int64_t i = begin; i < end; ++i) work.self->RunPlane(work, i);
        },
        const_cast<Work*>(&work));
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "own loops"; }

 private:
  struct Work {
    const PlainConvolution* self;
    T* image;
    T* weights;
    T* result;
    const T* bias;
    const T* added;
  };

  int64_t GroupChannels() const { return p_.image_channels / p_.groups; }
  int64_t GroupResults() const { return p_.result_channels / p_.groups; }

  // A plane is what is wanted at one value of its two first dimensions.
  int64_t Planes() const {
    switch (p_.wanted) {
      case ConvolutionProblem::Wanted::kResult:
        return p_.batch * p_.result_channels;
      case ConvolutionProblem::Wanted::kImage:
        return p_.batch * p_.image_channels;
      case ConvolutionProblem::Wanted::kWeights:
        return p_.result_channels * GroupChannels();
    }
    return 0;
  }

  void RunPlane(const Work& work, int64_t i) const {
    switch (p_.wanted) {
      case ConvolutionProblem::Wanted::kResult:
        return ResultPlane(work, i / p_.result_channels,
                           i % p_.result_channels);
      case ConvolutionProblem::Wanted::kImage:
        return ImagePlane(work, i / p_.image_channels, i % p_.image_channels);
      case ConvolutionProblem::Wanted::kWeights:
        return WeightPlane(work, i / GroupChannels(), i % GroupChannels());
    }
  }

  // The image place that the window's `tap` meets at a result's place. False
  // in the padding.
  bool ImagePlace(const int64_t* result, const int64_t* tap,
                  int64_t* image) const {
    for (int i = 0; i < kSpatial; ++i) {
      image[i] =
          result[i] * p_.stride[i] - p_.padding[i] + tap[i] * p_.dilation[i];
      if (image[i] < 0 || image[i] >= p_.image[i]) return false;
    }
    return true;
  }

  // Calls visit(result place, image place, count) for each line of neighbouring result
  // places, along the last dimension in use, that meet the image at `tap`: with the
  // first of them, and what it meets.
  template <typename Visit>
  void ForEachLine(const int64_t* tap, const Visit& visit) const {
    const int last = Last();
    const int64_t stride = p_.stride[last];
    const int64_t shift = tap[last] * p_.dilation[last] - p_.padding[last];
    const int64_t begin = shift < 0 ? (stride - 1 - shift) / stride : 0;
    const int64_t room = p_.image[last] - 1 - shift;
    const int64_t end =
        room < 0 ? 0 : std::min(p_.result[last], room / stride + 1);
    if (begin >= end) return;
    int64_t extents[kSpatial];
    std::copy(p_.result, p_.result + kSpatial, extents);
    extents[last] = 1;
    ForEachPlace(extents, [&](const int64_t* place) {
      int64_t first[kSpatial], image[kSpatial];
      std::copy(place, place + kSpatial, first);
      first[last] = begin;
      if (ImagePlace(first, tap, image)) visit(first, image, end - begin);
    });
  }

  int Last() const { return p_.spatial - 1; }
  int64_t ImageStep() const {
    return p_.stride[Last()] * p_.image_strides[2 + Last()];
  }
  int64_t ResultStep() const { return p_.result_strides[2 + Last()]; }

  void Put(double sum, T& cell) const {
    cell = static_cast<T>(sum);
    Activate(p_.activation, &cell, 1);
  }

  void ResultPlane(const Work& work, int64_t n, int64_t k) const {
    const int64_t first = k / GroupResults() * GroupChannels();
    std::vector<double> sums(
        PlacesOf(p_.result),
        p_.has_bias ? double{work.bias[k * p_.bias_stride]} : 0);
    for (int64_t c = 0; c < GroupChannels(); ++c) {
      ForEachPlace(p_.window, [&](const int64_t* tap) {
        const double weight = work.weights[At(p_.weight_strides, k, c, tap)];
        ForEachLine(tap, [&](const int64_t* place, const int64_t* image,
                             int64_t count) {
          AddScaled(work.image + At(p_.image_strides, n, first + c, image),
                    ImageStep(), weight, count,
                    &sums[PlaceIn(p_.result, place)], 1);
        });
      });
    }
    ForEachPlace(p_.result, [&](const int64_t* place) {
      double sum = sums[PlaceIn(p_.result, place)];
      if (p_.has_added)
        sum += double{work.added[At(p_.added_strides, n, k, place)]};
      Put(sum, work.result[At(p_.result_strides, n, k, place)]);
    });
  }

  void ImagePlane(const Work& work, int64_t n, int64_t channel) const {
    const int64_t first = channel / GroupChannels() * GroupResults();
    const int64_t c = channel % GroupChannels();
    std::vector<double> sums(
        PlacesOf(p_.image),
        p_.has_bias ? double{work.bias[channel * p_.bias_stride]} : 0);
    for (int64_t k = first; k < first + GroupResults(); ++k) {
      ForEachPlace(p_.window, [&](const int64_t* tap) {
        const double weight = work.weights[At(p_.weight_strides, k, c, tap)];
        ForEachLine(tap, [&](const int64_t* place, const int64_t* image,
                             int64_t count) {
          AddScaled(work.result + At(p_.result_strides, n, k, place),
                    ResultStep(), weight, count,
                    &sums[PlaceIn(p_.image, image)], p_.stride[Last()]);
        });
      });
    }
    ForEachPlace(p_.image, [&](const int64_t* place) {
      Put(sums[PlaceIn(p_.image, place)],
          work.image[At(p_.image_strides, n, channel, place)]);
    });
  }

  void WeightPlane(const Work& work, int64_t k, int64_t c) const {
    const int64_t channel = k / GroupResults() * GroupChannels() + c;
    ForEachPlace(p_.window, [&](const int64_t* tap) {
      double sum = 0;
      for (int64_t n = 0; n < p_.batch; ++n) {
        ForEachLine(tap, [&](const int64_t* place, const int64_t* image,
                             int64_t count) {
          const T* const a =
              work.image + At(p_.image_strides, n, channel, image);
          const T* const b = work.result + At(p_.result_strides, n, k, place);
          for (int64_t x = 0; x < count; ++x)
            sum += double{a[x * ImageStep()]} * double{b[x * ResultStep()]};
        });
      }
      work.weights[At(p_.weight_strides, k, c, tap)] = static_cast<T>(sum);
    });
  }

  const ConvolutionProblem p_;
  ThreadPool& threads_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PreparePlainConvolution(
    const ConvolutionProblem& problem, ThreadPool& threads) {
  if (problem.dtype == DType::kFloat32 || problem.dtype == DType::kFloat64) {
    if (auto tiled = PrepareTiledConvolution(problem, threads)) return tiled;
    if (problem.dtype == DType::kFloat32)
      return std::make_shared<PlainConvolution<float>>(problem, threads);
    return std::make_shared<PlainConvolution<double>>(problem, threads);
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   Describe(problem) + ": no plain loop for this dtype");
}

}  // namespace kiln

#include <algorithm>

#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/plain_kernels.h"

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

  // The result place whose `tap` meets an image's place. False if none does.
  bool ResultPlace(const int64_t* image, const int64_t* tap,
                   int64_t* result) const {
    for (int i = 0; i < kSpatial; ++i) {
      const int64_t from = image[i] + p_.padding[i] - tap[i] * p_.dilation[i];
      if (from < 0 || from % p_.stride[i] != 0) return false;
      result[i] = from / p_.stride[i];
      if (result[i] >= p_.result[i]) return false;
    }
    return true;
  }

  void Put(double sum, T& cell) const {
    cell = static_cast<T>(sum);
    Activate(p_.activation, &cell, 1);
  }

  void ResultPlane(const Work& work, int64_t n, int64_t k) const {
    const int64_t first = k / GroupResults() * GroupChannels();
    ForEachPlace(p_.result, [&](const int64_t* place) {
      double sum = p_.has_bias ? double{work.bias[k * p_.bias_stride]} : 0;
      for (int64_t c = 0; c < GroupChannels(); ++c) {
        ForEachPlace(p_.window, [&](const int64_t* tap) {
          int64_t image[kSpatial];
          if (!ImagePlace(place, tap, image)) return;
          sum += double{work.image[At(p_.image_strides, n, first + c, image)]} *
                 double{work.weights[At(p_.weight_strides, k, c, tap)]};
        });
      }
      if (p_.has_added)
        sum += double{work.added[At(p_.added_strides, n, k, place)]};
      Put(sum, work.result[At(p_.result_strides, n, k, place)]);
    });
  }

  void ImagePlane(const Work& work, int64_t n, int64_t channel) const {
    const int64_t first = channel / GroupChannels() * GroupResults();
    const int64_t c = channel % GroupChannels();
    ForEachPlace(p_.image, [&](const int64_t* place) {
      double sum =
          p_.has_bias ? double{work.bias[channel * p_.bias_stride]} : 0;
      for (int64_t k = first; k < first + GroupResults(); ++k) {
        ForEachPlace(p_.window, [&](const int64_t* tap) {
          int64_t result[kSpatial];
          if (!ResultPlace(place, tap, result)) return;
          sum += double{work.result[At(p_.result_strides, n, k, result)]} *
                 double{work.weights[At(p_.weight_strides, k, c, tap)]};
        });
      }
      Put(sum, work.image[At(p_.image_strides, n, channel, place)]);
    });
  }

  void WeightPlane(const Work& work, int64_t k, int64_t c) const {
    const int64_t channel = k / GroupResults() * GroupChannels() + c;
    ForEachPlace(p_.window, [&](const int64_t* tap) {
      double sum = 0;
      for (int64_t n = 0; n < p_.batch; ++n) {
        ForEachPlace(p_.result, [&](const int64_t* place) {
          int64_t image[kSpatial];
          if (!ImagePlace(place, tap, image)) return;
          sum += double{work.image[At(p_.image_strides, n, channel, image)]} *
                 double{work.result[At(p_.result_strides, n, k, place)]};
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
  if (problem.dtype == DType::kFloat32) {
    return std::make_shared<PlainConvolution<float>>(problem, threads);
  }
  if (problem.dtype == DType::kFloat64) {
    return std::make_shared<PlainConvolution<double>>(problem, threads);
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   Describe(problem) + ": no plain loop for this dtype");
}

}  // namespace kiln

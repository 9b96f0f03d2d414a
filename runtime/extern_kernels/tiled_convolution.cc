#include "runtime/extern_kernels/tiled_convolution.h"

#include <algorithm>
#include <vector>

#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/tiled_product.h"

namespace kiln {
namespace {

constexpr int kSpatial = ConvolutionProblem::kMaxSpatial;
constexpr int64_t kFewRows = 4;
using Wanted = ConvolutionProblem::Wanted;

// What a column or a step of the product adds to the place that is read of the tensor
// that is gathered, and to its address.
struct Point {
  int64_t offset = 0;
  int64_t at[kSpatial] = {0, 0, 0};
  int64_t rest[kSpatial] = {0, 0, 0};  // of a division
};

// The tensor that is gathered: at `at` / `divisor` in each dimension, where that is a
// whole number inside `extents`; elsewhere there are zeros.
struct Gathered {
  int64_t extents[kSpatial];
  int64_t divisor[kSpatial];
  int64_t strides[kSpatial];

  bool divides() const {
    return divisor[0] != 1 || divisor[1] != 1 || divisor[2] != 1;
  }
  // Divided, and with the address of its place.
  Point Addressed(Point point) const {
    for (int i = 0; i < kSpatial; ++i) {
      point.rest[i] = point.at[i] % divisor[i];
      if (point.rest[i] < 0) point.rest[i] += divisor[i];
      point.at[i] = (point.at[i] - point.rest[i]) / divisor[i];
      point.offset += point.at[i] * strides[i];
    }
    return point;
  }
};

Point PlaceOf(const int64_t* extents, int64_t index) {
  Point place;
  for (int i = kSpatial - 1; i >= 0; --i) {
    place.at[i] = index % extents[i];
    index /= extents[i];
  }
  return place;
}

// The element of a column and a step, which are Addressed; 0 in the padding.
template <typename T>
double ElementAt(const T* data, const Gathered& g, bool divides, const Point& a,
                 const Point& b) {
  int64_t offset = a.offset + b.offset;
  for (int i = 0; i < kSpatial; ++i) {
    int64_t at = a.at[i] + b.at[i];
    if (divides) {
      const int64_t rest = a.rest[i] + b.rest[i];
      if (rest != 0) {
        if (rest != g.divisor[i]) return 0;
        ++at;
        offset += g.strides[i];
      }
    }
    if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(g.extents[i]))
      return 0;
  }
  return double{data[offset]};
}

// The columns of a panel.
class Columns {
 public:
  template <typename ColumnAt>
  Columns(const Gathered& gathered, int64_t count, const ColumnAt& column_at)
      : g_(gathered), divides_(gathered.divides()), points_(count) {
    for (int64_t j = 0; j < count; ++j) points_[j] = column_at(j);
    side_by_side_ = true;
    low_ = high_ = points_[0];
    for (int64_t j = 1; j < count; ++j) {
      side_by_side_ &= points_[j].offset == points_[0].offset + j;
      for (int i = 0; i < kSpatial; ++i) {
        low_.at[i] = std::min(low_.at[i], points_[j].at[i]);
        high_.at[i] = std::max(high_.at[i], points_[j].at[i]);
      }
    }
  }

  // What all columns read at a step.
  template <typename T>
  void Read(const T* data, const Point& step, double* to) const {
    const int64_t count = static_cast<int64_t>(points_.size());
    if (divides_ || !AllInside(step)) {
      for (int64_t j = 0; j < count; ++j)
        to[j] = ElementAt(data, g_, divides_, points_[j], step);
    } else if (side_by_side_) {
      const T* const from = data + points_[0].offset + step.offset;
      for (int64_t j = 0; j < count; ++j) to[j] = double{from[j]};
    } else {
      const T* const from = data + step.offset;
      for (int64_t j = 0; j < count; ++j)
        to[j] = double{from[points_[j].offset]};
    }
  }

 private:
  bool AllInside(const Point& step) const {
    for (int i = 0; i < kSpatial; ++i) {
      if (low_.at[i] + step.at[i] < 0 ||
          high_.at[i] + step.at[i] >= g_.extents[i]) {
        return false;
      }
    }
    return true;
  }

  const Gathered& g_;
  const bool divides_;
  bool side_by_side_;
  std::vector<Point> points_;
  Point low_, high_;  // of their places
};

template <typename T>
class TiledConvolution final : public PreparedCall {
 public:
  TiledConvolution(const ConvolutionProblem& problem, ThreadPool& threads)
      : p_(problem),
        threads_(threads),
        gathered_(GatheredOf(problem)),
        product_(SizesOf(problem), threads.threads()) {
    const bool image = p_.wanted == Wanted::kImage;
    const int64_t taps = PlacesOf(p_.window);
    const int64_t channels = image ? Results() : Channels();
    for (int64_t index = 0; index < channels * taps; ++index) {
      const Point tap = PlaceOf(p_.window, index % taps);
      Tap& made = taps_.emplace_back();
      made.weight = index / taps * p_.weight_strides[image ? 0 : 1];
      made.read.offset =
          index / taps * (image ? p_.result_strides : p_.image_strides)[1];
      for (int i = 0; i < kSpatial; ++i) {
        made.weight += tap.at[i] * p_.weight_strides[2 + i];
        made.read.at[i] = tap.at[i] * (image ? -1 : 1) * p_.dilation[i];
      }
      made.read = gathered_.Addressed(made.read);
    }
  }

  static ProductSizes SizesOf(const ConvolutionProblem& p) {
    const int64_t channels = p.image_channels / p.groups;
    const int64_t results = p.result_channels / p.groups;
    const int64_t taps = PlacesOf(p.window), places = PlacesOf(p.result);
    switch (p.wanted) {
      case Wanted::kResult:
        return {p.batch * p.groups, results, places, channels * taps};
      case Wanted::kImage:
        return {p.batch * p.groups, channels, PlacesOf(p.image),
                results * taps};
      case Wanted::kWeights:
        return {p.groups, results, channels * taps, p.batch * places};
    }
    return {};
  }

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    product_.Run(Source{*this, static_cast<T*>(buffers.operand[kImageOperand]),
                        static_cast<T*>(buffers.operand[kWeightsOperand]),
                        static_cast<T*>(buffers.operand[kResultOperand]),
                        static_cast<const T*>(buffers.operand[kBiasOperand]),
                        static_cast<const T*>(buffers.operand[kAddedOperand])},
                 threads_);
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "own loops"; }

 private:
  static Gathered GatheredOf(const ConvolutionProblem& p) {
    Gathered g;
    for (int i = 0; i < kSpatial; ++i) {
      const bool image = p.wanted == Wanted::kImage;
      g.extents[i] = image ? p.result[i] : p.image[i];
      g.divisor[i] = image ? p.stride[i] : 1;
      g.strides[i] = image ? p.result_strides[2 + i] : p.image_strides[2 + i];
    }
    return g;
  }

  int64_t Channels() const { return p_.image_channels / p_.groups; }
  int64_t Results() const { return p_.result_channels / p_.groups; }

  // A channel of the group, of those that are summed over or of weights those that are
  // wanted, and a place in the window.
  struct Tap {
    int64_t weight = 0;  // the address in the weights
    Point read;
  };

  // Of a result's place: where its window begins in the image.
  Point WindowAt(int64_t index) const {
    Point place = PlaceOf(p_.result, index);
    for (int i = 0; i < kSpatial; ++i)
      place.at[i] = place.at[i] * p_.stride[i] - p_.padding[i];
    return gathered_.Addressed(place);
  }

  // Of an image's place, before a tap is taken off: the result's place times the stride.
  Point PaddedAt(int64_t index) const {
    Point place = PlaceOf(p_.image, index);
    for (int i = 0; i < kSpatial; ++i) place.at[i] += p_.padding[i];
    return gathered_.Addressed(place);
  }

  int64_t ResultAt(int64_t index) const {
    const Point place = PlaceOf(p_.result, index);
    int64_t offset = 0;
    for (int i = 0; i < kSpatial; ++i)
      offset += place.at[i] * p_.result_strides[2 + i];
    return offset;
  }

  struct Source {
    const TiledConvolution& c;
    T* image;
    T* weights;
    T* result;
    const T* bias;
    const T* added;

    int64_t Group(int64_t batch) const { return batch % c.p_.groups; }
    int64_t Image(int64_t batch) const { return batch / c.p_.groups; }

    void WriteRows(const PanelPart& part, int64_t width, double* panel) const {
      const ConvolutionProblem& p = c.p_;
      const int64_t results = Group(part.batch) * c.Results();
      if (part.count < width) std::fill_n(panel, width * part.depth, 0.0);
      for (int64_t d = 0; d < part.depth; ++d) {
        const int64_t step = part.step + d;
        const T* from = nullptr;
        int64_t across = 0;
        switch (p.wanted) {
          case Wanted::kResult:
            across = p.weight_strides[0];
            from = weights + (results + part.first) * across +
                   c.taps_[step].weight;
            break;
          case Wanted::kImage:
            across = p.weight_strides[1];
            from = weights + results * p.weight_strides[0] +
                   part.first * across + c.taps_[step].weight;
            break;
          case Wanted::kWeights: {
            const int64_t places = PlacesOf(p.result);
            across = p.result_strides[1];
            from = result + step / places * p.result_strides[0] +
                   (results + part.first) * across + c.ResultAt(step % places);
            break;
          }
        }
        for (int64_t i = 0; i < part.count; ++i)
          panel[d * width + i] = double{from[i * across]};
      }
    }

    Point Column(int64_t index) const {
      switch (c.p_.wanted) {
        case Wanted::kResult:
          return c.WindowAt(index);
        case Wanted::kImage:
          return c.PaddedAt(index);
        case Wanted::kWeights:
          return c.taps_[index].read;
      }
      return {};
    }

    Point Step(int64_t index) const {
      const ConvolutionProblem& p = c.p_;
      switch (p.wanted) {
        case Wanted::kResult:
        case Wanted::kImage:
          return c.taps_[index].read;
        case Wanted::kWeights: {
          const int64_t places = PlacesOf(p.result);
          Point place = c.WindowAt(index % places);
          place.offset += index / places * p.image_strides[0];
          return place;
        }
      }
      return {};
    }

    // Where what is gathered begins for a group and, but for weights, an image.
    const T* Begin(int64_t batch) const {
      const ConvolutionProblem& p = c.p_;
      const int64_t group = Group(batch);
      switch (p.wanted) {
        case Wanted::kResult:
          return image + Image(batch) * p.image_strides[0] +
                 group * c.Channels() * p.image_strides[1];
        case Wanted::kImage:
          return result + Image(batch) * p.result_strides[0] +
                 group * c.Results() * p.result_strides[1];
        case Wanted::kWeights:
          return image + group * c.Channels() * p.image_strides[1];
      }
      return nullptr;
    }

    void WriteColumns(const PanelPart& part, int64_t width,
                      double* panel) const {
      if (part.count < width) std::fill_n(panel, width * part.depth, 0.0);
      const Columns columns(c.gathered_, part.count,
                            [&](int64_t j) { return Column(part.first + j); });
      const T* const data = Begin(part.batch);
      for (int64_t d = 0; d < part.depth; ++d)
        columns.Read(data, Step(part.step + d), panel + d * width);
    }

    void Finish(const ProductTile& tile, double* sums, int64_t stride) const {
      const ConvolutionProblem& p = c.p_;
      if (p.wanted == Wanted::kWeights)
        return FinishWeights(tile, sums, stride);
      const bool forward = p.wanted == Wanted::kResult;
      const int64_t* const strides =
          forward ? p.result_strides : p.image_strides;
      std::vector<int64_t> to(tile.columns), from(tile.columns);
      for (int64_t j = 0; j < tile.columns; ++j) {
        const Point place =
            PlaceOf(forward ? p.result : p.image, tile.column + j);
        for (int i = 0; i < kSpatial; ++i) {
          to[j] += place.at[i] * strides[2 + i];
          from[j] += place.at[i] * p.added_strides[2 + i];
        }
      }
      const int64_t n = Image(tile.batch);
      const int64_t first =
          Group(tile.batch) * (forward ? c.Results() : c.Channels()) + tile.row;
      for (int64_t i = 0; i < tile.rows; ++i) {
        const int64_t channel = first + i;
        const double start =
            p.has_bias ? double{bias[channel * p.bias_stride]} : 0;
        const T* const more =
            added + n * p.added_strides[0] + channel * p.added_strides[1];
        T* const cells =
            (forward ? result : image) + n * strides[0] + channel * strides[1];
        for (int64_t j = 0; j < tile.columns; ++j) {
          double sum = sums[i * stride + j] + start;
          if (p.has_added) sum += double{more[from[j]]};
          T& cell = cells[to[j]];
          cell = static_cast<T>(sum);
          Activate(p.activation, &cell, 1);
        }
      }
    }

    void FinishWeights(const ProductTile& tile, const double* sums,
                       int64_t stride) const {
      const int64_t first = tile.batch * c.Results() + tile.row;
      for (int64_t i = 0; i < tile.rows; ++i) {
        T* const cells = weights + (first + i) * c.p_.weight_strides[0];
        for (int64_t j = 0; j < tile.columns; ++j) {
          cells[c.taps_[tile.column + j].weight] =
              static_cast<T>(sums[i * stride + j]);
        }
      }
    }
  };

  const ConvolutionProblem p_;
  ThreadPool& threads_;
  const Gathered gathered_;
  const TiledProduct<double> product_;
  std::vector<Tap> taps_;
};

template <typename T>
std::shared_ptr<const PreparedCall> Prepare(const ConvolutionProblem& problem,
                                            ThreadPool& threads) {
  if (TiledConvolution<T>::SizesOf(problem).rows < kFewRows) return nullptr;
  return std::make_shared<TiledConvolution<T>>(problem, threads);
}

}  // namespace

std::shared_ptr<const PreparedCall> PrepareTiledConvolution(
    const ConvolutionProblem& problem, ThreadPool& threads) {
  return problem.dtype == DType::kFloat32 ? Prepare<float>(problem, threads)
                                          : Prepare<double>(problem, threads);
}

}  // namespace kiln

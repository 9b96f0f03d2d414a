#ifndef KILN_TESTS_RUNTIME_EXTERN_KERNELS_CONVOLUTION_SUITE_H_
#define KILN_TESTS_RUNTIME_EXTERN_KERNELS_CONVOLUTION_SUITE_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/opened_device.h"
#include "tests/runtime/extern_kernels/call_runner.h"

// What every library of convolutions promises, held against plain loops in
// double: forward and both gradients, one to three dimensions, strides,
// padding, dilation, groups, transposed, contiguous and channels-last. A new
// library adds one INSTANTIATE line and inherits the tests.

namespace kiln {

struct ConvolutionLibraryCase {
  const char* name;
  OpenedDevice (*open)();
  std::vector<DType> dtypes;
};

struct ConvolutionShape {
  std::vector<int64_t> image;  // spatial extents of x
  std::vector<int64_t> window;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t batch = 2;
  int64_t x_channels = 4;
  int64_t y_channels = 6;
  int64_t groups = 1;
  bool transposed = false;
  std::vector<int64_t> output_padding = {0};

  std::string Text() const {
    return absl::StrCat(
        transposed ? "transposed " : "", "image ", absl::StrJoin(image, "x"),
        " window ", absl::StrJoin(window, "x"), " stride ",
        absl::StrJoin(stride, ","), " padding ", absl::StrJoin(padding, ","),
        " dilation ", absl::StrJoin(dilation, ","), " channels ", x_channels,
        "->", y_channels, " groups ", groups, " batch ", batch);
  }
};

class ConvolutionSuite : public testing::TestWithParam<ConvolutionLibraryCase> {
 protected:
  enum class Format { kContiguous, kChannelsLast };

  void SetUp() override {
    opened_ = GetParam().open();
    if (opened_.device == nullptr) GTEST_SKIP() << "no such device here";
  }

  // One convolution with all its operands.
  struct Case {
    ConvolutionShape shape;
    Operand x, w, bias, y;
  };

  static int64_t Of(const std::vector<int64_t>& values, size_t i) {
    return values.size() == 1 ? values[0] : values[i];
  }

  static Operand Tensor(DType dtype, std::vector<int64_t> sizes,
                        Format format) {
    std::vector<int> order = {0, 1};
    for (size_t i = 2; i < sizes.size(); ++i) order.push_back(i);
    if (format == Format::kChannelsLast) {
      order.erase(order.begin() + 1);
      order.push_back(1);
    }
    return Operand::Dense(dtype, std::move(sizes), order);
  }

  Case Make(const ConvolutionShape& s, DType dtype, Format format) {
    std::vector<int64_t> x = {s.batch, s.x_channels};
    std::vector<int64_t> y = {s.batch, s.y_channels};
    std::vector<int64_t> w =
        s.transposed
            ? std::vector<int64_t>{s.x_channels, s.y_channels / s.groups}
            : std::vector<int64_t>{s.y_channels, s.x_channels / s.groups};
    for (size_t i = 0; i < s.image.size(); ++i) {
      const int64_t reach = Of(s.dilation, i) * (s.window[i] - 1);
      x.push_back(s.image[i]);
      w.push_back(s.window[i]);
      y.push_back(s.transposed ? (s.image[i] - 1) * Of(s.stride, i) -
                                     2 * Of(s.padding, i) + reach +
                                     Of(s.output_padding, i) + 1
                               : (s.image[i] + 2 * Of(s.padding, i) - reach -
                                  1) / Of(s.stride, i) +
                                     1);
    }
    Case c{s, Tensor(dtype, x, format), Tensor(dtype, w, format),
           Operand::Dense(dtype, {s.y_channels}, {0}),
           Tensor(dtype, y, format)};
    c.x.FillWithSmallIntegers(random_);
    c.w.FillWithSmallIntegers(random_);
    c.bias.FillWithSmallIntegers(random_);
    return c;
  }

  std::vector<ExternAttribute> Attributes(const ConvolutionShape& s) {
    return {{"stride", absl::MakeConstSpan(s.stride)},
            {"padding", absl::MakeConstSpan(s.padding)},
            {"dilation", absl::MakeConstSpan(s.dilation)},
            {"groups", s.groups}};
  }

  // Visits every product of the convolution: the places of its x, w and y.
  template <typename Visit>
  static void ForEachProduct(const Case& c, const Visit& visit) {
    const ConvolutionShape& s = c.shape;
    const int64_t x_group = s.x_channels / s.groups;
    const int64_t y_group = s.y_channels / s.groups;
    // The window steps over x, or over y when transposed.
    const Operand& stepped = s.transposed ? c.x : c.y;
    const Operand& image = s.transposed ? c.y : c.x;
    std::vector<int64_t> places = stepped.sizes();
    places[1] = 1;  // the weights say which channel
    std::vector<int64_t> at, dense;
    ForEachIndex(c.w.sizes(), [&](const std::vector<int64_t>& w) {
      const int64_t group = w[0] / (s.transposed ? x_group : y_group);
      const int64_t other = group * (s.transposed ? y_group : x_group) + w[1];
      ForEachIndex(places, [&](const std::vector<int64_t>& place) {
        at = place;
        at[1] = w[0];
        dense = at;
        dense[1] = other;
        for (size_t i = 2; i < at.size(); ++i) {
          dense[i] = at[i] * Of(s.stride, i - 2) - Of(s.padding, i - 2) +
                     w[i] * Of(s.dilation, i - 2);
          if (dense[i] < 0 || dense[i] >= image.size(i)) return;
        }
        visit(s.transposed ? at : dense, w, s.transposed ? dense : at);
      });
    });
  }

  static void ExpectEqual(const Operand& found, const std::vector<double>& due,
                          absl::string_view what) {
    int wrong = 0;
    ForEachIndex(found.sizes(), [&](const std::vector<int64_t>& place) {
      const double value = found.At(place);
      if (value == due[found.Offset(place)]) return;
      if (++wrong <= 3) {
        ADD_FAILURE() << what << " at " << absl::StrJoin(place, ",")
                      << ": found " << value << ", due "
                      << due[found.Offset(place)];
      }
    });
    ASSERT_EQ(wrong, 0) << what;
  }

  static std::vector<double> Zeros(const Operand& like) {
    return std::vector<double>(like.bytes().size(), 0.0);
  }

  // The image, weights and result of the direct convolution behind `c`.
  enum class Array { kImage, kWeights, kResult };
  static constexpr absl::string_view kNames[] = {"image", "weights", "result"};

  absl::Status Run(const Case& c, Array wanted, std::vector<Operand*> inputs,
                   Operand& output, absl::string_view activation,
                   bool adds = false) {
    auto attributes = Attributes(c.shape);
    if (adds) attributes.push_back({"added", int64_t{1}});
    attributes.push_back({"wanted", kNames[static_cast<int>(wanted)]});
    attributes.push_back({"activation", activation});
    return RunCall({.name = "convolution", .attributes = attributes}, inputs,
                   {&output}, *opened_.device, *opened_.externs);
  }

  // `inputs`: x, w, perhaps a bias, and what is added if something is.
  absl::Status RunForward(Case& c, std::vector<Operand*> inputs,
                          absl::string_view activation, bool adds = false) {
    // A transposed one has x for its result.
    if (c.shape.transposed) std::swap(inputs[0], inputs[1]);
    return Run(c, c.shape.transposed ? Array::kImage : Array::kResult,
               std::move(inputs), c.y, activation, adds);
  }

  void CheckForward(Case& c, bool with_bias, absl::string_view activation = "",
                    Operand* added = nullptr) {
    std::vector<double> due = Zeros(c.y);
    if (with_bias) {
      ForEachIndex(c.y.sizes(), [&](const std::vector<int64_t>& place) {
        due[c.y.Offset(place)] = c.bias.At({place[1]});
      });
    }
    ForEachProduct(c, [&](const auto& x, const auto& w, const auto& y) {
      due[c.y.Offset(y)] += c.x.At(x) * c.w.At(w);
    });
    if (added != nullptr) {
      ForEachIndex(c.y.sizes(), [&](const std::vector<int64_t>& place) {
        due[c.y.Offset(place)] += added->At(place);
      });
    }
    if (activation == "relu") {
      for (double& value : due) value = std::max(value, 0.0);
    }
    c.y.FillWith(std::numeric_limits<double>::quiet_NaN());
    std::vector<Operand*> inputs = {&c.x, &c.w};
    if (with_bias) inputs.push_back(&c.bias);
    if (added != nullptr) inputs.push_back(added);
    const absl::Status status =
        RunForward(c, inputs, activation, added != nullptr);
    ASSERT_TRUE(status.ok()) << status;
    ExpectEqual(c.y, due, "y");
  }

  void CheckBackward(Case& c) {
    c.y.FillWithSmallIntegers(random_);  // now the gradient
    Operand grad_x = c.x;
    Operand grad_w = c.w;
    grad_x.FillWith(99);
    grad_w.FillWith(99);
    std::vector<double> due_x = Zeros(c.x);
    std::vector<double> due_w = Zeros(c.w);
    ForEachProduct(c, [&](const auto& x, const auto& w, const auto& y) {
      due_x[c.x.Offset(x)] += c.y.At(y) * c.w.At(w);
      due_w[c.w.Offset(w)] += c.y.At(y) * c.x.At(x);
    });
    const bool transposed = c.shape.transposed;
    absl::Status status = transposed
                              ? Run(c, Array::kResult, {&c.y, &c.w}, grad_x, "")
                              : Run(c, Array::kImage, {&c.w, &c.y}, grad_x, "");
    ASSERT_TRUE(status.ok()) << status;
    ExpectEqual(grad_x, due_x, "grad_x");
    status =
        Run(c, Array::kWeights,
            {transposed ? &c.y : &c.x, transposed ? &c.x : &c.y}, grad_w, "");
    ASSERT_TRUE(status.ok()) << status;
    ExpectEqual(grad_w, due_w, "grad_w");
  }

  void CheckAll(const ConvolutionShape& shape) {
    for (const DType dtype : GetParam().dtypes) {
      for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
        SCOPED_TRACE(absl::StrCat(
            ShortName(dtype),
            format == Format::kContiguous ? " contiguous " : " channels-last ",
            shape.Text()));
        Case c = Make(shape, dtype, format);
        CheckForward(c, /*with_bias=*/false);
        CheckForward(c, /*with_bias=*/true);
        CheckBackward(c);
        if (HasFatalFailure()) return;
      }
    }
  }

  OpenedDevice opened_;
  std::mt19937 random_{11};
};

TEST_P(ConvolutionSuite, TwoDimensionsWithStridePaddingAndDilation) {
  CheckAll({{6, 5}, {3, 3}, {1}, {1}, {1}});
  CheckAll({{7, 8}, {3, 2}, {2, 1}, {1, 0}, {1}});
  CheckAll({{9, 9}, {3, 3}, {1, 2}, {2}, {2, 1}});
  CheckAll({{5, 5}, {1, 1}, {1}, {0}, {1}});
  CheckAll({{6, 6}, {1, 1}, {2}, {0}, {1}});
  CheckAll({{4, 4}, {4, 4}, {4}, {0}, {1}});
}

TEST_P(ConvolutionSuite, ChannelsThatFillNoBlockOrMoreThanOne) {
  for (const auto& [x, y] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {3, 16}, {16, 40}, {33, 5}}) {
    CheckAll({.image = {5, 5},
              .window = {3, 3},
              .stride = {1},
              .padding = {1},
              .dilation = {1},
              .batch = 1,
              .x_channels = x,
              .y_channels = y});
  }
}

TEST_P(ConvolutionSuite, GroupsAndDepthwise) {
  for (const auto& [channels, groups] :
       std::vector<std::pair<int64_t, int64_t>>{
           {4, 2}, {6, 3}, {20, 20}, {24, 2}}) {
    CheckAll({.image = {5, 6},
              .window = {3, 3},
              .stride = {1},
              .padding = {1},
              .dilation = {1},
              .x_channels = channels,
              .y_channels = 2 * channels,
              .groups = groups});
  }
}

TEST_P(ConvolutionSuite, OneAndThreeDimensions) {
  CheckAll({{11}, {3}, {2}, {1}, {1}});
  CheckAll({{4, 5, 4}, {2, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1}});
}

TEST_P(ConvolutionSuite, TransposedWithOutputPaddingAndGroups) {
  CheckAll({.image = {4, 5},
            .window = {3, 3},
            .stride = {2},
            .padding = {1},
            .dilation = {1},
            .transposed = true,
            .output_padding = {1}});
  CheckAll({.image = {4, 4},
            .window = {2, 3},
            .stride = {1},
            .padding = {0, 1},
            .dilation = {1, 2},
            .x_channels = 4,
            .y_channels = 8,
            .groups = 2,
            .transposed = true});
  CheckAll({.image = {6},
            .window = {4},
            .stride = {2},
            .padding = {1},
            .dilation = {1},
            .transposed = true});
}

TEST_P(ConvolutionSuite, OperandsThatStartBetweenWholeVectors) {
  for (const DType dtype : GetParam().dtypes) {
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      Case c = Make({.image = {9, 10},
                     .window = {3, 3},
                     .stride = {1},
                     .padding = {1},
                     .dilation = {1},
                     .x_channels = 16,
                     .y_channels = 8},
                    dtype, format);
      for (Operand* operand : {&c.x, &c.w, &c.y})
        operand->StartAt(SizeInBytes(dtype));
      SCOPED_TRACE(ShortName(dtype));
      CheckForward(c, /*with_bias=*/true);
      CheckBackward(c);
    }
  }
}

TEST_P(ConvolutionSuite, ADeterministicOneGivesEqualBits) {
  Case c = Make({.image = {14, 14},
                 .window = {3, 3},
                 .stride = {1},
                 .padding = {1},
                 .dilation = {1},
                 .batch = 4,
                 .x_channels = 32,
                 .y_channels = 32},
                DType::kFloat32, Format::kChannelsLast);
  std::uniform_real_distribution<double> any(-1, 1);
  for (Operand* operand : {&c.x, &c.y}) {
    for (size_t i = 0; i < operand->bytes().size() / sizeof(float); ++i)
      operand->Set(i, any(random_));
  }
  auto attributes = Attributes(c.shape);
  attributes.push_back({"wanted", absl::string_view("weights")});
  attributes.push_back({"deterministic", int64_t{1}});
  std::vector<std::string> found;
  for (int run = 0; run < 3; ++run) {
    const absl::Status status =
        RunCall({.name = "convolution", .attributes = attributes}, {&c.x, &c.y},
                {&c.w}, *opened_.device, *opened_.externs);
    ASSERT_TRUE(status.ok()) << status;
    found.emplace_back(c.w.bytes().begin(), c.w.bytes().end());
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

TEST_P(ConvolutionSuite, AReluComesLastAndKeepsANaN) {
  for (const DType dtype : GetParam().dtypes) {
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(absl::StrCat(ShortName(dtype), " ", transposed));
        Case c = Make({.image = {5, 6},
                       .window = {3, 3},
                       .stride = {1},
                       .padding = {1},
                       .dilation = {1},
                       .transposed = transposed},
                      dtype, format);
        CheckForward(c, /*with_bias=*/false, "relu");
        CheckForward(c, /*with_bias=*/true, "relu");
        c.x.Set(0, std::numeric_limits<double>::quiet_NaN());
        const absl::Status status = RunForward(c, {&c.x, &c.w}, "relu");
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_TRUE(std::isnan(c.y.At({0, 0, 0, 0})));
      }
    }
  }
}

// What is added lies as the result does, or otherwise; the place of the result holds
// NaN before.
TEST_P(ConvolutionSuite, WhatIsAddedComesBeforeTheRelu) {
  for (const DType dtype : GetParam().dtypes) {
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      for (const Format other : {Format::kContiguous, Format::kChannelsLast}) {
        for (const absl::string_view activation : {"relu", ""}) {
          Case c = Make({.image = {9, 8},
                         .window = {3, 3},
                         .stride = {1},
                         .padding = {1},
                         .dilation = {1},
                         .x_channels = 16,
                         .y_channels = 32},
                        dtype, format);
          Operand added = Tensor(dtype, c.y.sizes(), other);
          added.FillWithSmallIntegers(random_);
          for (const bool with_bias : {true, false}) {
            SCOPED_TRACE(absl::StrCat(ShortName(dtype), " ", activation, " ",
                                      with_bias, format == other));
            CheckForward(c, with_bias, activation, &added);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// By two threads: five images one at a time, six in steps of three.
TEST_P(ConvolutionSuite, ImagesThatThreadsShareOut) {
  for (const int64_t batch : {5, 6}) {
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      Case c = Make({.image = {12, 12},
                     .window = {3, 3},
                     .stride = {1},
                     .padding = {1},
                     .dilation = {1},
                     .batch = batch,
                     .x_channels = 16,
                     .y_channels = 16},
                    DType::kFloat32, format);
      SCOPED_TRACE(c.shape.Text());
      CheckForward(c, /*with_bias=*/true, "relu");
      CheckBackward(c);
    }
  }
}

// Of 64 channels each; the last part fills no block.
TEST_P(ConvolutionSuite, WeightsThatAreCopiedInParts) {
  for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
    Case c = Make({.image = {2, 2},
                   .window = {3, 3},
                   .stride = {1},
                   .padding = {1},
                   .dilation = {1},
                   .batch = 2,
                   .x_channels = 192,
                   .y_channels = 150},
                  DType::kFloat32, format);
    CheckForward(c, /*with_bias=*/true);
    CheckBackward(c);
  }
}

TEST_P(ConvolutionSuite, AnEmptyBatchGivesAnEmptyResult) {
  for (const DType dtype : GetParam().dtypes) {
    Case c = Make({.image = {5, 5},
                   .window = {3, 3},
                   .stride = {1},
                   .padding = {1},
                   .dilation = {1},
                   .batch = 0},
                  dtype, Format::kContiguous);
    CheckForward(c, /*with_bias=*/false);
    CheckForward(c, /*with_bias=*/true, "relu");
    CheckBackward(c);
  }
}

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_EXTERN_KERNELS_CONVOLUTION_SUITE_H_

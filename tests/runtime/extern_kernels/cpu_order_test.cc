// Sorting and selection on the CPU, row by row.

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/cpu_externs.h"
#include "tests/runtime/extern_kernels/call_runner.h"

namespace kiln {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Asked {
  absl::string_view how;
  int64_t count;
  bool largest = false;
  int64_t k = 0;
};

struct Ordered {
  absl::Status status;
  std::vector<double> values;
  std::vector<int64_t> places;
};

// Of one row, which stands in a matrix of two beside its mirror image, so that
// strides matter.
Ordered OrderOf(const std::vector<double>& row, Asked asked,
                DType dtype = DType::kFloat32) {
  auto device = std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 2});
  const auto externs = MakeCpuExterns(device, {});
  const int64_t length = row.size();
  Operand x = Operand::Dense(dtype, {2, length}, {1, 0});
  for (int64_t i = 0; i < length; ++i) {
    x.Set(x.Offset({0, i}), row[length - 1 - i]);
    x.Set(x.Offset({1, i}), row[i]);
  }
  Operand values = Operand::Dense(dtype, {2, asked.count}, {0, 1});
  Operand places = Operand::Dense(DType::kInt64, {2, asked.count}, {1, 0});
  const int64_t k[] = {asked.k};
  const ExternAttribute attributes[] = {
      {"how", asked.how},
      {"k", absl::MakeConstSpan(k)},
      {"largest", int64_t{asked.largest}},
  };
  ExternCall call;
  call.name = "order";
  call.attributes = attributes;
  Ordered got;
  got.status = RunCall(call, {&x}, {&values, &places}, *device, *externs);
  for (int64_t c = 0; got.status.ok() && c < asked.count; ++c) {
    got.values.push_back(values.At({1, c}));
    got.places.push_back(static_cast<int64_t>(places.At({1, c})));
  }
  return got;
}

TEST(CpuOrder, EqualsKeepTheirOrderAndNanIsTheLargest) {
  const Ordered up = OrderOf({2, kNan, 1, 2, -1}, {"sort", 5});
  EXPECT_EQ(up.places, (std::vector<int64_t>{4, 2, 0, 3, 1}));
  EXPECT_TRUE(std::isnan(up.values[4]));
  const Ordered down = OrderOf({2, kNan, 1, 2, -1}, {"sort", 5, true});
  EXPECT_EQ(down.places, (std::vector<int64_t>{1, 0, 3, 2, 4}));
}

TEST(CpuOrder, EveryDtypeIsSorted) {
  for (DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16,
                      DType::kInt32, DType::kInt64, DType::kFloat16,
                      DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const Ordered got = OrderOf({1, 0, 1}, {"sort", 3}, dtype);
    EXPECT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.values, (std::vector<double>{0, 1, 1})) << ShortName(dtype);
    EXPECT_EQ(got.places, (std::vector<int64_t>{1, 0, 2})) << ShortName(dtype);
  }
}

// Short rows are selected from, long ones sorted as far as is asked for.
TEST(CpuOrder, TheFirstOfShortAndLongRows) {
  const Ordered some = OrderOf({3, 9, 4, 7}, {"top", 2, true});
  EXPECT_EQ(some.values, (std::vector<double>{9, 7}));
  EXPECT_EQ(some.places, (std::vector<int64_t>{1, 3}));
  std::vector<double> long_row(300);
  for (int i = 0; i < 300; ++i) long_row[i] = (i * 7) % 300;
  const Ordered few = OrderOf(long_row, {"top", 3});
  EXPECT_EQ(few.values, (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(few.places, (std::vector<int64_t>{0, 43, 86}));
}

// What PyTorch 2.11 answers on the CPU to torch.topk(x, 4) and
// torch.kthvalue(x, 4).
TEST(CpuOrder, OfEqualsPyTorchsAreTaken) {
  const std::vector<double> row = {5, 5, 1, 5, 5, 2, 5, 5};
  EXPECT_EQ(OrderOf(row, {"top", 4, true}).places,
            (std::vector<int64_t>{6, 0, 4, 7}));
  EXPECT_EQ(OrderOf(row, {"kth", 1, false, 3}).places,
            (std::vector<int64_t>{6}));
}

TEST(CpuOrder, TheMedianIsTheFirstNanOrTheLowerOfTwoInTheMiddle) {
  EXPECT_EQ(OrderOf({4, 1, 3, 2}, {"median", 1}).values[0], 2);
  EXPECT_EQ(OrderOf({4, kNan, 3, kNan}, {"median", 1}).places[0], 1);
  const Ordered numbers = OrderOf({4, kNan, 3, kNan}, {"nanmedian", 1});
  EXPECT_EQ(numbers.values[0], 3);
  EXPECT_EQ(numbers.places[0], 2);
  EXPECT_TRUE(std::isnan(OrderOf({kNan}, {"nanmedian", 1}).values[0]));
}

TEST(CpuOrder, WhatARowHasNotIsRefused) {
  EXPECT_EQ(ReasonOf(OrderOf({1, 2}, {"top", 3}).status),
            ErrorReason::kArtifactCorrupt);
  EXPECT_EQ(ReasonOf(OrderOf({1, 2}, {"kth", 1, false, 2}).status),
            ErrorReason::kArtifactCorrupt);
  EXPECT_EQ(ReasonOf(OrderOf({1, 2}, {"shuffled", 2}).status),
            ErrorReason::kUnsupportedOp);
}

}  // namespace
}  // namespace kiln

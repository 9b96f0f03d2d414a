#ifndef KILN_TESTS_RUNTIME_EXTERN_KERNELS_MATMUL_SUITE_H_
#define KILN_TESTS_RUNTIME_EXTERN_KERNELS_MATMUL_SUITE_H_

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/reference/special_functions.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/opened_device.h"
#include "tests/runtime/extern_kernels/call_runner.h"

// What every library of matrix products promises, held against plain loops in
// double. A new library adds one INSTANTIATE line and inherits the tests.

namespace kiln {

struct MatmulLibraryCase {
  const char* name;
  OpenedDevice (*open)();
  std::vector<DType> dtypes;
  // What a library may leave out (extern_kernel.h says who does).
  bool activates_double = true;
  bool scales_empty_sums = true;
  bool relu_keeps_nan = true;
  double gelu_tolerance = 2e-6;  // of f32
  bool names_algorithms = false;
  bool has_gelu_gradient = false;
};

// What is due at one place, and the sum of the sizes of its terms.
struct DueElement {
  double value = 0;
  double terms = 0;
};

// How far a result may be from what is due: `relative` of it (at least of 1),
// `of_terms` of the sum of the sizes of its terms.
struct SumTolerance {
  double relative = 0;
  double of_terms = 0;
};

class MatmulSuite : public testing::TestWithParam<MatmulLibraryCase> {
 protected:
  void SetUp() override {
    opened_ = GetParam().open();
    if (opened_.device == nullptr) GTEST_SKIP() << "no such device here";
  }

  struct Shape {
    int64_t batch, m, k, n;
  };

  static std::vector<int> Order(bool transposed, bool batched) {
    if (!batched) {
      return transposed ? std::vector<int>{1, 0} : std::vector<int>{0, 1};
    }
    return transposed ? std::vector<int>{0, 2, 1} : std::vector<int>{0, 1, 2};
  }

  static std::vector<int64_t> Sizes(int64_t batch, int64_t rows,
                                    int64_t columns) {
    if (batch == 0) return {rows, columns};
    return {batch, rows, columns};
  }

  // What one rounding to nearest may change, relative to the value; 0 for
  // dtypes whose sums are not rounded again.
  static double HalfUlp(DType dtype) {
    return dtype == DType::kBFloat16  ? 0x1p-8
           : dtype == DType::kFloat16 ? 0x1p-11
                                      : 0;
  }

  static double ActivatedValue(const std::string& activation, double x) {
    if (activation == "relu") return x < 0 ? 0 : x;
    return activation == "gelu_tanh" ? GeluTanh(x) : x;
  }

  // out = activation(beta * bias + alpha * a @ b) at one place, in double.
  static DueElement Expected(const Operand& a, const Operand& b,
                             const Operand* bias, std::vector<int64_t> place,
                             double alpha, double beta,
                             const std::string& activation) {
    const bool batched = place.size() == 3;
    const size_t row = batched ? 1 : 0;
    double sum = 0;
    DueElement due;
    for (int64_t k = 0; k < a.sizes().back(); ++k) {
      std::vector<int64_t> in_a = place;
      std::vector<int64_t> in_b = place;
      in_a[row + 1] = k;
      in_b[row] = k;
      const double term = a.At(in_a) * b.At(in_b);
      sum += term;
      due.terms += std::abs(term);
    }
    double value = alpha * sum;
    if (bias != nullptr && beta != 0) value += beta * bias->At(place);
    due.value = ActivatedValue(activation, value);
    return due;
  }

  // Compares every element with gelu_tanh'(x) * (a @ b). The sum may be rounded to the
  // dtype before it is multiplied, as in eager mode, and the result is.
  void CheckGeluGradient(const Operand& a, const Operand& b, const Operand& x,
                         const Operand& out, DType dtype) {
    ForEachIndex(out.sizes(), [&](const std::vector<int64_t>& place) {
      const DueElement sum = Expected(a, b, nullptr, place, 1, 0, "");
      const double due = sum.value * GeluTanhGradient(x.At(place));
      const double allowed = 2 * HalfUlp(dtype) * std::max(1.0, std::abs(due)) +
                             GetParam().gelu_tolerance * std::abs(sum.value);
      if (!HasFailure()) {
        EXPECT_NEAR(out.At(place), due, allowed)
            << "row " << place[0] << ", column " << place[1] << ", x "
            << x.At(place) << ", sum " << sum.value;
      }
    });
  }

  // Runs the call and compares every element. No tolerance where small integers
  // make the result exact.
  void Check(const std::string& name, Operand& a, Operand& b, Operand* bias,
             Operand& out, std::vector<ExternAttribute> attributes,
             SumTolerance tolerance = {}) {
    double alpha = 1, beta = 1;
    std::string activation;
    for (const ExternAttribute& attribute : attributes) {
      if (attribute.name == "alpha") alpha = std::get<double>(attribute.value);
      if (attribute.name == "beta") beta = std::get<double>(attribute.value);
      if (attribute.name == "activation") {
        activation = std::string(std::get<absl::string_view>(attribute.value));
      }
    }
    std::vector<Operand*> inputs = {&a, &b};
    if (bias != nullptr) inputs.insert(inputs.begin(), bias);
    const absl::Status status =
        RunCall({.name = name, .attributes = attributes}, inputs, {&out},
                *opened_.device, *opened_.externs);
    ASSERT_TRUE(status.ok()) << status;
    int wrong = 0;
    ForEachIndex(out.sizes(), [&](const std::vector<int64_t>& place) {
      const DueElement due =
          Expected(a, b, bias, place, alpha, beta, activation);
      const double found = out.At(place);
      const double allowed =
          tolerance.relative * std::max(1.0, std::abs(due.value)) +
          tolerance.of_terms * due.terms;
      if (!(std::abs(found - due.value) <= allowed)) {
        if (++wrong <= 3) {
          ADD_FAILURE() << "found " << found << ", due " << due.value
                        << " within " << allowed << " at row "
                        << place[place.size() - 2] << ", column "
                        << place.back();
        }
      }
    });
    ASSERT_EQ(wrong, 0);
  }

  OpenedDevice opened_;
  std::mt19937 random_{7};
};

TEST_P(MatmulSuite, EveryShapeDTypeAndOrderGivesTheSumsOfProducts) {
  // Whole tiles and broken ones, vectors, single elements.
  const Shape shapes[] = {{0, 1, 1, 1},    {0, 5, 7, 3},   {0, 1, 33, 17},
                          {0, 40, 1, 9},   {0, 33, 40, 1}, {0, 64, 32, 130},
                          {0, 130, 9, 64}, {3, 4, 5, 6},   {5, 17, 40, 33},
                          {1, 8, 8, 8},    {7, 1, 40, 2}};
  for (const DType dtype : GetParam().dtypes) {
    for (const Shape& shape : shapes) {
      for (int orders = 0; orders < 8; ++orders) {
        SCOPED_TRACE(absl::StrCat(ShortName(dtype), " ", shape.batch, "x[",
                                  shape.m, ",", shape.k, "]@[", shape.k, ",",
                                  shape.n, "] orders ", orders));
        const bool batched = shape.batch != 0;
        auto a = Operand::Dense(dtype, Sizes(shape.batch, shape.m, shape.k),
                                Order(orders & 1, batched));
        auto b = Operand::Dense(dtype, Sizes(shape.batch, shape.k, shape.n),
                                Order(orders & 2, batched));
        auto out = Operand::Dense(dtype, Sizes(shape.batch, shape.m, shape.n),
                                  Order(orders & 4, batched));
        a.FillWithSmallIntegers(random_);
        b.FillWithSmallIntegers(random_);
        Check(batched ? "bmm" : "mm", a, b, nullptr, out, {});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatmulSuite, ABiasMayRepeatAlongRowsColumnsOrBoth) {
  for (const DType dtype : GetParam().dtypes) {
    for (const std::vector<int64_t>& strides :
         std::vector<std::vector<int64_t>>{
             {0, 1}, {1, 0}, {0, 0}, {6, 1}, {1, 5}, {12, 2}}) {
      for (const bool transposed_out : {false, true}) {
        SCOPED_TRACE(absl::StrCat(ShortName(dtype), " bias strides ",
                                  strides[0], ", ", strides[1]));
        auto a = Operand::Dense(dtype, {5, 8}, {0, 1});
        auto b = Operand::Dense(dtype, {8, 6}, {0, 1});
        auto out = Operand::Dense(dtype, {5, 6}, Order(transposed_out, false));
        Operand bias(dtype, {5, 6}, strides);
        a.FillWithSmallIntegers(random_);
        b.FillWithSmallIntegers(random_);
        bias.FillWithSmallIntegers(random_);
        Check("addmm", a, b, &bias, out, {});
        Check("addmm", a, b, &bias, out, {{"alpha", 2.0}, {"beta", -3.0}});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatmulSuite, ABatchMayShareItsBiasOrAMatrix) {
  for (const DType dtype : GetParam().dtypes) {
    SCOPED_TRACE(ShortName(dtype));
    auto a = Operand::Dense(dtype, {4, 3, 8}, {0, 1, 2});
    Operand b(dtype, {4, 8, 6}, {0, 6, 1});
    Operand bias(dtype, {4, 3, 6}, {0, 0, 1});
    auto out = Operand::Dense(dtype, {4, 3, 6}, {0, 1, 2});
    for (Operand* operand : {&a, &b, &bias}) {
      operand->FillWithSmallIntegers(random_);
    }
    Check("baddbmm", a, b, &bias, out, {{"alpha", 1.0}, {"beta", 2.0}});
  }
}

TEST_P(MatmulSuite, BetaZeroDoesNotReadTheBias) {
  for (const DType dtype : GetParam().dtypes) {
    if (!IsFloat(dtype)) continue;
    SCOPED_TRACE(ShortName(dtype));
    auto a = Operand::Dense(dtype, {3, 4}, {0, 1});
    auto b = Operand::Dense(dtype, {4, 2}, {0, 1});
    auto bias = Operand::Dense(dtype, {3, 2}, {0, 1});
    auto out = Operand::Dense(dtype, {3, 2}, {0, 1});
    a.FillWithSmallIntegers(random_);
    b.FillWithSmallIntegers(random_);
    bias.FillWith(std::numeric_limits<double>::quiet_NaN());
    out.FillWith(std::numeric_limits<double>::quiet_NaN());
    Check("addmm", a, b, &bias, out, {{"beta", 0.0}});
  }
}

TEST_P(MatmulSuite, AnEmptySumGivesTheBiasAndEmptyResultsAreFine) {
  for (const DType dtype : GetParam().dtypes) {
    SCOPED_TRACE(ShortName(dtype));
    for (const Shape& shape : {Shape{0, 3, 0, 4}, Shape{0, 0, 3, 4},
                               Shape{0, 3, 4, 0}, Shape{2, 3, 0, 4}}) {
      const bool batched = shape.batch != 0;
      auto a = Operand::Dense(dtype, Sizes(shape.batch, shape.m, shape.k),
                              Order(false, batched));
      auto b = Operand::Dense(dtype, Sizes(shape.batch, shape.k, shape.n),
                              Order(false, batched));
      auto bias = Operand::Dense(dtype, Sizes(shape.batch, shape.m, shape.n),
                                 Order(false, batched));
      auto out = Operand::Dense(dtype, Sizes(shape.batch, shape.m, shape.n),
                                Order(false, batched));
      bias.FillWithSmallIntegers(random_);
      out.FillWith(9);
      const double beta = GetParam().scales_empty_sums ? 2.0 : 1.0;
      Check(batched ? "baddbmm" : "addmm", a, b, &bias, out, {{"beta", beta}});
      out.FillWith(9);
      Check(batched ? "bmm" : "mm", a, b, nullptr, out, {});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatmulSuite, ActivationsComeLast) {
  for (const DType dtype : GetParam().dtypes) {
    if (!IsFloat(dtype)) continue;
    if (dtype == DType::kFloat64 && !GetParam().activates_double) continue;
    for (const absl::string_view activation : {"", "relu", "gelu_tanh"}) {
      SCOPED_TRACE(absl::StrCat(ShortName(dtype), " ", activation));
      auto a = Operand::Dense(dtype, {9, 8}, {0, 1});
      auto b = Operand::Dense(dtype, {8, 24}, {0, 1});
      Operand bias(dtype, {9, 24}, {0, 1});
      auto out = Operand::Dense(dtype, {9, 24}, {0, 1});
      for (Operand* operand : {&a, &b, &bias}) {
        operand->FillWithSmallIntegers(random_);
      }
      // Half an ulp of the result; f32 is good to a few ulp, and all to what a
      // library's approximation of tanh leaves (gelu_tolerance).
      const double tolerance = dtype == DType::kFloat64
                                   ? 1e-12
                                   : HalfUlp(dtype) + GetParam().gelu_tolerance;
      Check("addmm", a, b, &bias, out, {{"activation", activation}},
            {.relative = activation == "gelu_tanh" ? tolerance : 0});
    }
  }
}

// Rows of one element, many, and a number that is no multiple of a tile; factors that
// lie along their other axis. Who has no such epilogue says so.
TEST_P(MatmulSuite, TheGradientOfAGeluIsAFactorOfTheSum) {
  for (const DType dtype : GetParam().dtypes) {
    SCOPED_TRACE(ShortName(dtype));
    const bool computed = GetParam().has_gelu_gradient && IsHalf(dtype);
    for (const Shape& shape :
         {Shape{0, 1, 8, 8}, Shape{0, 16, 64, 32}, Shape{0, 1000, 72, 264}}) {
      for (const bool turned : {false, true}) {
        const std::vector<int> order = Order(turned, false);
        auto a = Operand::Dense(dtype, {shape.m, shape.k},
                                Order(turned && shape.m > 1, false));
        auto b = Operand::Dense(dtype, {shape.k, shape.n}, order);
        auto x = Operand::Dense(dtype, {shape.m, shape.n}, {0, 1});
        auto out = Operand::Dense(dtype, {shape.m, shape.n}, {0, 1});
        std::uniform_real_distribution<double> uniform(-1, 1);
        for (Operand* operand : {&a, &b, &x}) {
          for (int64_t i = 0; i < operand->size(0) * operand->size(1); ++i)
            operand->Set(i, (operand == &x ? 4 : 1) * uniform(random_));
        }
        const absl::Status status =
            RunCall({.name = "mm",
                     .attributes = {{"activation",
                                     absl::string_view("gelu_tanh_gradient")}}},
                    {&a, &b, &x}, {&out}, *opened_.device, *opened_.externs);
        if (!computed) {
          EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp) << status;
          continue;
        }
        ASSERT_TRUE(status.ok()) << status;
        CheckGeluGradient(a, b, x, out, dtype);
        if (HasFailure()) return;
      }
    }
  }
}

// Far from 0 the derivative is 0 or 1. A NaN stays one, wherever it comes from.
TEST_P(MatmulSuite, TheGradientOfAGeluKeepsNaNs) {
  if (!GetParam().has_gelu_gradient) GTEST_SKIP() << "it has none";
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    SCOPED_TRACE(ShortName(dtype));
    auto a = Operand::Dense(dtype, {16, 16}, {0, 1});
    auto b = Operand::Dense(dtype, {16, 16}, {0, 1});
    auto x = Operand::Dense(dtype, {16, 16}, {0, 1});
    auto out = Operand::Dense(dtype, {16, 16}, {0, 1});
    a.FillWith(1);
    b.FillWith(1);
    x.FillWith(100);
    x.Set(0, -100);
    x.Set(1, kNaN);
    x.Set(2, 0);
    a.Set(16, kNaN);       // all of row 1
    a.Set(32, kInfinity);  // all of row 2
    const absl::Status status =
        RunCall({.name = "mm",
                 .attributes = {{"activation",
                                 absl::string_view("gelu_tanh_gradient")}}},
                {&a, &b, &x}, {&out}, *opened_.device, *opened_.externs);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(out.At({0, 0}), 0);
    EXPECT_TRUE(std::isnan(out.At({0, 1}))) << out.At({0, 1});
    EXPECT_EQ(out.At({0, 2}), 8);
    EXPECT_EQ(out.At({0, 3}), 16);
    EXPECT_TRUE(std::isnan(out.At({1, 3}))) << out.At({1, 3});
    EXPECT_EQ(out.At({2, 3}), kInfinity);
  }
}

// Not what max(x, 0) does on most hardware.
TEST_P(MatmulSuite, ReluKeepsANaN) {
  if (!GetParam().relu_keeps_nan) GTEST_SKIP() << "the compiler knows that";
  for (const DType dtype : GetParam().dtypes) {
    if (!IsFloat(dtype)) continue;
    if (dtype == DType::kFloat64 && !GetParam().activates_double) continue;
    SCOPED_TRACE(ShortName(dtype));
    auto a = Operand::Dense(dtype, {16, 16}, {0, 1});
    auto b = Operand::Dense(dtype, {16, 16}, {0, 1});
    auto out = Operand::Dense(dtype, {16, 16}, {0, 1});
    a.FillWith(-1);
    b.FillWith(1);
    a.Set(0, std::numeric_limits<double>::quiet_NaN());
    const absl::Status status =
        RunCall({.name = "mm", .attributes = {{"activation", "relu"}}},
                {&a, &b}, {&out}, *opened_.device, *opened_.externs);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(std::isnan(out.At({0, 3}))) << out.At({0, 3});
    EXPECT_EQ(out.At({1, 3}), 0);
  }
}

TEST_P(MatmulSuite, LongSumsStayWithinTheErrorOfTheirDType) {
  for (const DType dtype : GetParam().dtypes) {
    if (!IsFloat(dtype)) continue;
    SCOPED_TRACE(ShortName(dtype));
    auto a = Operand::Dense(dtype, {70, 700}, {0, 1});
    auto b = Operand::Dense(dtype, {700, 150}, {0, 1});
    auto out = Operand::Dense(dtype, {70, 150}, {0, 1});
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (Operand* operand : {&a, &b}) {
      for (int64_t i = 0; i < operand->size(0) * operand->size(1); ++i) {
        operand->Set(i, uniform(random_));
      }
    }
    // Each of the K - 1 additions in f32 (f64: 2^-53) errs by at most 2^-24 of
    // a partial sum, as often up as down: about sqrt(K) * 2^-24 of the sum of
    // the sizes of the terms. A half type's result is rounded once more. Parts
    // of a sum rounded to f16, or factors rounded to TF32, are ten times that.
    const double sums = dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
    const SumTolerance tolerance = {.relative = HalfUlp(dtype),
                                    .of_terms = std::sqrt(700) * sums};
    Check("mm", a, b, nullptr, out, {}, tolerance);
  }
}

// 1 + 2^-12 needs more bits than a factor of TF32 has.
TEST_P(MatmulSuite, FactorsLoseBitsOnlyWhereTheCallAllowsIt) {
  auto a = Operand::Dense(DType::kFloat32, {64, 64}, {0, 1});
  auto b = Operand::Dense(DType::kFloat32, {64, 64}, {0, 1});
  auto out = Operand::Dense(DType::kFloat32, {64, 64}, {0, 1});
  a.FillWith(1 + 0x1p-12);
  b.FillWith(1);
  Check("mm", a, b, nullptr, out, {});
  Check("mm", a, b, nullptr, out, {{"allow_tf32", int64_t{0}}});
  Check("mm", a, b, nullptr, out, {{"allow_tf32", int64_t{1}}},
        {.relative = 0x1p-11});
}

// Whichever algorithm a call names: all of the library's, and one that it has not.
TEST_P(MatmulSuite, EachAlgorithmThatIsNamedGivesTheSumsOfProducts) {
  for (const DType dtype : GetParam().dtypes) {
    if (dtype == DType::kInt32 || dtype == DType::kInt64) continue;
    auto a = Operand::Dense(dtype, {256, 192}, {0, 1});
    auto b = Operand::Dense(dtype, {192, 320}, {0, 1});
    auto out = Operand::Dense(dtype, {256, 320}, {0, 1});
    a.FillWithSmallIntegers(random_);
    b.FillWithSmallIntegers(random_);
    const ExternOperand inputs[] = {a.meta(), b.meta()};
    const ExternOperand outputs[] = {out.meta()};
    const auto part = ReadExternCall({"mm", inputs, outputs, {}});
    ASSERT_TRUE(part.ok()) << part.status();
    const auto named = opened_.externs->Algorithms(part->problem, 8);
    ASSERT_TRUE(named.ok()) << named.status();
    EXPECT_EQ(named->empty(), !GetParam().names_algorithms);
    std::vector<std::string> all = *named;
    all.push_back("id0.of.another.library");
    for (const std::string& name : all) {
      SCOPED_TRACE(name);
      EXPECT_EQ(name.find(' '), std::string::npos);
      Check("mm", a, b, nullptr, out, {{"algorithm", absl::string_view(name)}});
    }
  }
}

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_EXTERN_KERNELS_MATMUL_SUITE_H_

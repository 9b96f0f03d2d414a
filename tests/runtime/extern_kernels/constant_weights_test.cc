// Products of constant weights: a copy of the weights, made beforehand, gives the
// product that the weights themselves give. oneDNN is held to AVX2 (BUILD.bazel), as
// there is no copy on AVX-512.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/cpu_externs.h"
#include "runtime/extern_kernels/dnnl_library.h"

namespace kiln {
namespace {

// A product whose operands are dense: row-major, or column-major where said so.
struct Product {
  std::string name;
  int64_t batch, m, k, n;
  bool weights_by_column = false;
  bool result_by_column = false;
  bool shared_weights = false;  // of all matrices of the batch
  int operand = 1;              // of which a copy is offered; -1: none
};

void PrintTo(const Product& product, std::ostream* out) {
  *out << product.name;
}

MatrixStrides Dense(int64_t rows, int64_t columns, bool by_column) {
  return by_column ? MatrixStrides{rows * columns, 1, rows}
                   : MatrixStrides{rows * columns, columns, 1};
}

MatmulProblem ProblemOf(const Product& product) {
  MatmulProblem problem = {
      .batch = product.batch, .m = product.m, .n = product.n, .k = product.k};
  const bool first = product.operand == 0;  // the weights
  problem.a = Dense(product.m, product.k, first && product.weights_by_column);
  problem.b = Dense(product.k, product.n, !first && product.weights_by_column);
  problem.out = Dense(product.m, product.n, product.result_by_column);
  if (product.shared_weights) (first ? problem.a : problem.b).batch = 0;
  problem.has_bias = true;
  problem.bias = {0, 0, 1};
  problem.alpha = 2;
  problem.beta = 3;
  problem.activation = Activation::kRelu;
  return problem;
}

// What is due, and how far rounding may take a result from it.
struct Due {
  double value = 0;
  double bound = 0;
};

Due DueAt(const MatmulProblem& p, const std::vector<float>& a,
          const std::vector<float>& b, const std::vector<float>& bias,
          int64_t batch, int64_t i, int64_t j) {
  double sum = 0;
  double terms = 0;
  for (int64_t k = 0; k < p.k; ++k) {
    const double term =
        double{a[batch * p.a.batch + i * p.a.row + k * p.a.column]} *
        double{b[batch * p.b.batch + k * p.b.row + j * p.b.column]};
    sum += term;
    terms += std::abs(term);
  }
  const double value = p.alpha * sum + p.beta * bias[j];
  return {std::max(0.0, value),
          static_cast<double>(p.k + 2) * 0x1p-24 *
              (p.alpha * terms + p.beta * std::abs(bias[j]))};
}

class ConstantWeightsTest : public testing::TestWithParam<Product> {
 protected:
  void SetUp() override {
    const auto library = DnnlLibrary::Open({});
    if (!library.ok()) GTEST_SKIP() << library.status();
    if (!(*library)->has_avx2_alone()) GTEST_SKIP() << "no AVX2";
    device_ = std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 2});
    externs_ = MakeCpuExterns(device_, {});
  }

  // Small whole numbers, whose sums are exact, or any from -1 to 1.
  std::vector<float> Values(int64_t count, bool whole) {
    std::uniform_int_distribution<int> small(-2, 2);
    std::uniform_real_distribution<float> real(-1, 1);
    std::vector<float> values(count);
    for (float& value : values) {
      value = whole ? static_cast<float>(small(random_)) : real(random_);
    }
    return values;
  }

  // Runs the product with the weights as they lie and with a copy of them.
  void Check(const MatmulProblem& p, bool whole) {
    std::vector<float> a = Values(p.batch * p.m * p.k, whole);
    std::vector<float> b = Values(p.batch * p.k * p.n, whole);
    std::vector<float> bias = Values(p.n, whole);
    const auto call = externs_->Prepare(p);
    ASSERT_TRUE(call.ok()) << call.status();
    const OperandForm form = (*call)->operand_form();
    ASSERT_EQ(form.operand, GetParam().operand);
    std::vector<float> plain(p.batch * p.m * p.n, -1);
    ExternBuffers buffers{{a.data(), b.data(), bias.data(), plain.data()}};
    ASSERT_TRUE((*call)->Run(buffers, nullptr).ok());
    EXPECT_EQ(externs_->weight_reorders(), reorders_);
    std::vector<float> copied = plain;
    if (form.operand >= 0) {
      copied.assign(copied.size(), -1);
      const auto memory = device_->allocator().Allocate(form.bytes, nullptr);
      ASSERT_TRUE(memory.ok()) << memory.status();
      ASSERT_TRUE((*call)->PrepareOperand(buffers, *memory).ok());
      EXPECT_EQ(externs_->weight_reorders(), ++reorders_);
      buffers.prepared = *memory;
      buffers.operand[form.operand] = nullptr;
      buffers.operand[3] = copied.data();
      ASSERT_TRUE((*call)->Run(buffers, nullptr).ok());
      device_->allocator().Free(*memory, form.bytes, nullptr);
    }
    for (int64_t batch = 0; batch < p.batch; ++batch) {
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          const Due due = DueAt(p, a, b, bias, batch, i, j);
          const int64_t at =
              batch * p.out.batch + i * p.out.row + j * p.out.column;
          const double bound = whole ? 0 : due.bound;
          ASSERT_NEAR(plain[at], due.value, bound) << i << ", " << j;
          ASSERT_NEAR(copied[at], due.value, bound) << i << ", " << j;
        }
      }
    }
  }

  std::shared_ptr<CpuDevice> device_;
  std::shared_ptr<ExternLibrary> externs_;
  int64_t reorders_ = 0;
  std::mt19937 random_{11};
};

TEST_P(ConstantWeightsTest, ACopyGivesTheProduct) {
  const MatmulProblem problem = ProblemOf(GetParam());
  Check(problem, /*whole=*/true);
  if (HasFatalFailure()) return;
  Check(problem, /*whole=*/false);
}

constexpr bool kByColumn = true;
constexpr bool kByRow = false;

INSTANTIATE_TEST_SUITE_P(
    Cpu, ConstantWeightsTest,
    testing::Values(
        Product{"linear", 1, 8, 300, 700, kByColumn},
        Product{"most_rows", 1, 256, 270, 519, kByColumn},
        Product{"cut_to_most_rows", 1, 512, 260, 256, kByColumn},
        Product{"rows", 1, 32, 300, 640, kByRow},
        Product{"spread_rows", 1, 32, 300, 656, kByRow, kByRow, false, -1},
        Product{"few_rows", 1, 31, 300, 640, kByRow, kByRow, false, -1},
        Product{"few", 1, 7, 300, 700, kByColumn, kByRow, false, -1},
        Product{"many", 1, 513, 260, 256, kByColumn, kByRow, false, -1},
        Product{"small", 1, 16, 255, 256, kByColumn, kByRow, false, -1},
        Product{"batch", 3, 9, 260, 300, kByColumn},
        Product{"shared", 3, 9, 260, 300, kByColumn, kByRow, true},
        Product{"first", 1, 700, 300, 9, kByRow, kByColumn, false, 0},
        Product{"first_by_column", 1, 700, 300, 33, kByColumn, kByColumn, false,
                0},
        Product{"first_of_batch", 3, 300, 260, 9, kByRow, kByColumn, true, 0}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kiln

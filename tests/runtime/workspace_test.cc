// What library calls write beside their results: asked for once a run, before its
// first step.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/placed_run.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Takes products of at most 99 rows. One of m rows fills m KiB with m, and copies its
// result from there.
class Products final : public ExternLibrary {
 public:
  class Product final : public PreparedCall {
   public:
    Product(int64_t rows, int64_t columns, Products& of)
        : rows_(rows), columns_(columns), of_(of) {}
    absl::Status Run(const ExternBuffers& buffers, Stream) const override {
      of_.Note(absl::StrCat("product of ", rows_));
      auto* const room = static_cast<float*>(buffers.workspace);
      for (int64_t i = 0; i < rows_ * 256; ++i) {
        room[i] = static_cast<float>(rows_);
      }
      auto* const result = static_cast<float*>(buffers.operand[3]);
      std::copy(room, room + rows_ * columns_, result);
      return absl::OkStatus();
    }
    int64_t workspace_bytes() const override { return rows_ * 1024; }
    absl::string_view library() const override { return "products"; }

   private:
    const int64_t rows_, columns_;
    Products& of_;
  };

  absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      const ExternProblem& problem) override {
    const auto& product = std::get<MatmulProblem>(problem);
    Note("prepare");
    if (product.m > 99) {
      return MakeError(ErrorReason::kUnsupportedOp, "more than 99 rows");
    }
    return std::make_shared<Product>(product.m, product.n, *this);
  }

  void Note(std::string line) {
    MutexLock lock(&mu_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> Take() {
    MutexLock lock(&mu_);
    return std::exchange(lines_, {});
  }

 private:
  Mutex mu_;
  std::vector<std::string> lines_;
};

// Writes into the same lines what it is asked for.
class Ledger final : public Allocator {
 public:
  explicit Ledger(Products& lines) : lines_(lines) {}
  absl::StatusOr<void*> Allocate(int64_t bytes, Stream) override {
    if (bytes > most) {
      return MakeError(ErrorReason::kNoDevice, "not so much, said the test");
    }
    lines_.Note(absl::StrCat("take ", bytes));
    ++out;
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void Free(void* memory, int64_t bytes, Stream) override {
    lines_.Note(absl::StrCat("free ", bytes));
    --out;
    kept_.push_back({memory, &std::free});  // placed work may still write it
  }

  int64_t most = 1 << 20;
  int out = 0;

 private:
  Products& lines_;
  std::vector<std::unique_ptr<void, decltype(&std::free)>> kept_;
};

// y = x @ w and z = v @ w for x: f32[A, 2], v: f32[B, 2], w: f32[2, 2]; STEP is
// between them.
constexpr char kTwoProducts[] = R"(
  symbols { name: "s0" source { kind: KIND_SIZE input: 0 } min: 1 max: 1000 }
  symbols { name: "s1" source { kind: KIND_SIZE input: 1 } min: 1 max: 1000 }
  BOUND
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes A sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes B sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" }
  buffers { kind: KIND_INPUT index: 1 name: "v" }
  buffers { kind: KIND_INPUT index: 2 name: "w" }
  buffers { kind: KIND_OUTPUT name: "y" bytes
    { code { op: SYM_OP_SYMBOL value: 0 } code { op: SYM_OP_CONSTANT value: 8 } code { op: SYM_OP_MUL } } }
  buffers { kind: KIND_OUTPUT name: "z" bytes
    { code { op: SYM_OP_SYMBOL value: 1 } code { op: SYM_OP_CONSTANT value: 8 } code { op: SYM_OP_MUL } } }
  steps { extern_call { name: "mm"
    inputs { buffer: 0 dtype: DTYPE_FLOAT32 sizes A sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    inputs { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    outputs { buffer: 3 dtype: DTYPE_FLOAT32 sizes A sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } } } }
  STEP
  steps { extern_call { name: "mm"
    inputs { buffer: 1 dtype: DTYPE_FLOAT32 sizes LATER sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    inputs { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    outputs { buffer: 4 dtype: DTYPE_FLOAT32 sizes LATER sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } } } }
  outputs { view { buffer: 3 dtype: DTYPE_FLOAT32 sizes A sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
  outputs { view { buffer: 4 dtype: DTYPE_FLOAT32 sizes B sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
)";

std::string TwoProducts(const std::string& step = "",
                        const std::string& bound = "", int later = 1) {
  const auto symbol = [](int number) {
    return absl::StrCat("{ code { op: SYM_OP_SYMBOL value: ", number, " } }");
  };
  return absl::StrReplaceAll(kTwoProducts,
                             {{"sizes A", "sizes " + symbol(0)},
                              {"sizes B", "sizes " + symbol(1)},
                              {"sizes LATER", "sizes " + symbol(later)},
                              {"STEP", step},
                              {"BOUND", bound}});
}

// The second product's rows are known when a step has bound them.
std::string BoundInTheMiddle() {
  return TwoProducts(
      R"(steps { bind_symbol { symbol: 2 value { code { op: SYM_OP_SYMBOL value: 1 } } } })",
      R"(symbols { name: "u0" source { kind: KIND_STEP } min: 1 max: 1000 })",
      2);
}

class Workspaces : public testing::Test {
 protected:
  std::shared_ptr<const Executor> LoadPlan(const std::string& plan) {
    auto executor =
        Load(Seal(MakeTestArtifact(plan)), {TestCpu().device, products_});
    EXPECT_TRUE(executor.ok()) << executor.status();
    return executor.ok() ? *executor : nullptr;
  }

  static std::vector<InputValue> Inputs(int64_t a, int64_t b) {
    return {FloatTensor({a, 2}, std::vector<float>(2 * a)),
            FloatTensor({b, 2}, std::vector<float>(2 * b)),
            FloatTensor({2, 2}, {1, 0, 0, 1})};
  }

  static void ExpectRows(const std::vector<OutputValue>& outputs, int64_t a,
                         int64_t b) {
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[0])), Each(a));
    EXPECT_THAT(FloatValues(std::get<Tensor>(outputs[1])), Each(b));
  }

  // A run with memory of the ledger; its lines.
  std::vector<std::string> Run(const Executor& executor, int64_t a, int64_t b) {
    auto outputs = executor.Run(Inputs(a, b), {.allocator = &ledger_});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (outputs.ok()) ExpectRows(*outputs, a, b);
    std::vector<std::string> lines = products_->Take();
    outputs = absl::CancelledError();
    EXPECT_EQ(ledger_.out, 0);
    products_->Take();
    return lines;
  }

  const std::shared_ptr<Products> products_ = std::make_shared<Products>();
  Ledger ledger_{*products_};
};

TEST_F(Workspaces, TheLargestIsAskedForOnceBeforeTheFirstStep) {
  const auto executor = LoadPlan(TwoProducts());
  ASSERT_NE(executor, nullptr);
  EXPECT_THAT(
      Run(*executor, 3, 5),
      ElementsAre("prepare", "prepare", "take 5120", "take 24", "product of 3",
                  "take 40", "product of 5", "free 5120"));
  // Known shapes; others, the first the larger.
  EXPECT_THAT(Run(*executor, 3, 5),
              ElementsAre("take 5120", "take 24", "product of 3", "take 40",
                          "product of 5", "free 5120"));
  EXPECT_THAT(
      Run(*executor, 7, 2),
      ElementsAre("prepare", "prepare", "take 7168", "take 56", "product of 7",
                  "take 16", "product of 2", "free 7168"));
}

TEST_F(Workspaces, WhatAStepBindsIsAskedForThereIfItIsLarger) {
  const auto executor = LoadPlan(BoundInTheMiddle());
  ASSERT_NE(executor, nullptr);
  EXPECT_THAT(Run(*executor, 3, 5),
              ElementsAre("prepare", "take 3072", "take 24", "product of 3",
                          "prepare", "free 3072", "take 5120", "take 40",
                          "product of 5", "free 5120"));
  EXPECT_THAT(Run(*executor, 7, 2),
              ElementsAre("prepare", "take 7168", "take 56", "product of 7",
                          "prepare", "take 16", "product of 2", "free 7168"));
}

TEST_F(Workspaces, WithoutALenderItIsTheDevicesAndServesEveryRun) {
  for (const std::string& plan : {TwoProducts(), BoundInTheMiddle()}) {
    const auto executor = LoadPlan(plan);
    ASSERT_NE(executor, nullptr);
    for (int64_t a = 1; a < 40; ++a) {
      const auto outputs = executor->Run(Inputs(a, 40 - a), {});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      ExpectRows(*outputs, a, 40 - a);
    }
  }
}

TEST_F(Workspaces, CallsAtOnceHaveTheirOwn) {
  const auto executor = LoadPlan(TwoProducts());
  ASSERT_NE(executor, nullptr);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&executor, t] {
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t a = 1 + (t * 7 + i) % 20;
        const auto outputs = executor->Run(Inputs(a, 30 - a), {});
        ASSERT_TRUE(outputs.ok()) << outputs.status();
        ExpectRows(*outputs, a, 30 - a);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Workspaces, WhereThereIsNoRoomNoStepRunsAndAllGoesBack) {
  for (const std::string& plan : {TwoProducts(), BoundInTheMiddle()}) {
    const auto executor = LoadPlan(plan);
    ASSERT_NE(executor, nullptr);
    ledger_.most = 4096;
    const auto failed =
        executor->Run(Inputs(9, 5), {.allocator = &ledger_}).status();
    EXPECT_THAT(failed.message(), HasSubstr("not so much"));
    EXPECT_THAT(products_->Take(), Each(testing::StartsWith("prepare")));
    // Only a later one is too large.
    EXPECT_FALSE(executor->Run(Inputs(3, 9), {.allocator = &ledger_}).ok());
    EXPECT_EQ(ledger_.out, 0);
    ledger_.most = 1 << 20;
    products_->Take();
    Run(*executor, 9, 5);
  }
}

// The rows are refused by an assertion first, then by the library.
TEST_F(Workspaces, WhatNoLibraryTakesFailsInItsStepBehindAssertions) {
  const auto asserting = LoadPlan(TwoProducts(
      R"(steps { assertion { message: "too many rows" condition {
        code { op: SYM_OP_SYMBOL value: 1 } code { op: SYM_OP_CONSTANT value: 200 }
        code { op: SYM_OP_LT } } } })"));
  ASSERT_NE(asserting, nullptr);
  const auto why = [&](int64_t b) {
    return asserting->Run(Inputs(3, b), {.allocator = &ledger_}).status();
  };
  EXPECT_THAT(why(300).message(), HasSubstr("assertion: too many rows"));
  EXPECT_THAT(why(150).message(), HasSubstr("more than 99 rows"));
  EXPECT_EQ(ReasonOf(why(150)), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(ledger_.out, 0);
  Run(*asserting, 3, 50);
  const auto placed = PlacedRun::Place(asserting, ViewsOf(Inputs(3, 150)),
                                       {.allocator = &ledger_})
                          .status();
  EXPECT_THAT(placed.message(), HasSubstr("more than 99 rows"));
  EXPECT_EQ(ledger_.out, 0);
}

// As many other shapes come between as a site keeps.
TEST_F(Workspaces, APlacedRunAsksForNothingWheneverItIsPut) {
  for (const std::string& plan : {TwoProducts(), BoundInTheMiddle()}) {
    const auto executor = LoadPlan(plan);
    ASSERT_NE(executor, nullptr);
    const std::vector<InputValue> inputs = Inputs(3, 5);
    auto run =
        PlacedRun::Place(executor, ViewsOf(inputs), {.allocator = &ledger_});
    ASSERT_TRUE(run.ok()) << run.status();
    const std::vector<OutputValue> outputs = (*run)->TakeOutputs();
    EXPECT_EQ(ledger_.out, 2);  // the results
    for (int64_t rows = 10; rows < 30; ++rows) {
      ASSERT_TRUE(executor->Run(Inputs(rows, rows), {}).ok());
    }
    products_->Take();
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE((*run)->Put().ok());
      EXPECT_THAT(products_->Take(),
                  ElementsAre("product of 3", "product of 5"));
      ExpectRows(outputs, 3, 5);
    }
  }
}

}  // namespace
}  // namespace kiln

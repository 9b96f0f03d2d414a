#ifndef KILN_TESTS_RUNTIME_PLAN_GRAPHS_PLAN_GRAPHS_RIG_H_
#define KILN_TESTS_RUNTIME_PLAN_GRAPHS_PLAN_GRAPHS_RIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/caching_allocator.h"
#include "runtime/extern_kernels/null_externs.h"
#include "runtime/input_view.h"
#include "runtime/plan_graphs/plan_graphs.h"
#include "runtime/tensor.h"
#include "tests/runtime/plan_graphs/logged_device.h"
#include "tests/runtime/test_artifact.h"

// Plans over vectors of four floats, and their graphs on a null device, where
// copies and fills are the work.

namespace kiln {

// y = x, through memory of its own.
std::string CopyPlan();
// y = x and z = the last three of x with a 7 before them; both with a view.
std::string TwoResultsPlan();
// x loses its first element to a 7; the result is x itself.
std::string MutatingPlan();

// 1, 2, 3, 4 for 1; on the null device.
Tensor Vector(float first, int64_t elements = 4);
// As a caller in C has an input: he knows its memory and its form alone.
InputView Bare(const Tensor& tensor);

class PlanGraphsTest : public testing::Test {
 protected:
  explicit PlanGraphsTest(const GraphOptions& options = {.check_pool = true})
      : options_(options) {
    MakeGraphs();
  }
  void MakeGraphs() {
    graphs_.reset();
    auto made = PlanGraphs::Make(device_, allocator_, options_);
    EXPECT_TRUE(made.ok()) << made.status();
    graphs_ = *std::move(made);
  }

  int Add(const std::string& plan, std::vector<int> static_inputs = {}) {
    auto executor = Load(Seal(MakeTestArtifact(plan)), {device_, externs_});
    EXPECT_TRUE(executor.ok()) << executor.status();
    return graphs_->Add(*executor, std::move(static_inputs));
  }

  std::vector<Tensor> Call(int plan, std::vector<InputValue> inputs,
                           const PlanGraphs::CallOptions& options = {}) {
    auto results = graphs_->Run(plan, std::move(inputs), options);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<Tensor> tensors;
    if (!results.ok()) return tensors;
    for (OutputValue& result : *results) {
      tensors.push_back(std::get<Tensor>(std::move(result)));
    }
    return tensors;
  }
  // The first call of an iteration.
  std::vector<Tensor> Begin(int plan, std::vector<InputValue> inputs,
                            const PlanGraphs::CallOptions& options = {}) {
    graphs_->BeginStep();
    return Call(plan, std::move(inputs), options);
  }

  const graph_tree::TreeCounters& counters() const {
    return graphs_->tree().counters();
  }
  // Of the pool.
  int64_t AllocatedBlocks() const {
    int64_t blocks = 0;
    for (const PoolSegment& segment :
         allocator_->State(graphs_->memory().pool())) {
      for (const auto& [offset, block] : segment.blocks) {
        blocks += block.allocated;
      }
    }
    return blocks;
  }

  const GraphOptions options_;
  const std::shared_ptr<LoggedDevice> device_ =
      std::make_shared<LoggedDevice>();
  const std::shared_ptr<CachingAllocator> allocator_ =
      std::make_shared<CachingAllocator>(device_->segments());
  std::shared_ptr<ExternLibrary> externs_ = MakeNullExterns();
  std::unique_ptr<PlanGraphs> graphs_;
};

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_PLAN_GRAPHS_PLAN_GRAPHS_RIG_H_

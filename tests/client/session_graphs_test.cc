// A session's device graphs, on the null device: what they keep and for how long.
#include "client/session_graphs.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/extern_kernels/null_externs.h"
#include "runtime/null_device.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// y = x.
constexpr char kCopy[] = R"(
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
  steps { copy {
    from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } }
    to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } } }
  outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } })";

class SessionGraphsTest : public testing::Test {
 protected:
  SessionGraphsTest() {
    x_.device = DeviceKind::kNull;
    inputs_ = {x_};
  }

  std::shared_ptr<const Executor> NewExecutor() {
    auto executor = Load(Seal(MakeTestArtifact(kCopy)), device_);
    EXPECT_TRUE(executor.ok()) << executor.status();
    return executor.ok() ? *std::move(executor) : nullptr;
  }
  absl::StatusOr<std::vector<OutputValue>> Run(
      SessionGraphs& graphs, const std::shared_ptr<const Executor>& executor) {
    return graphs.Run(executor, ViewsOf(inputs_),
                      [] { return std::vector<int>(); }, {});
  }
  static graph_tree::TreeCounters Counters(const SessionGraphs& graphs) {
    graph_tree::TreeCounters counters;
    graphs.Look(
        [&](const graph_tree::GraphTree& tree) { counters = tree.counters(); });
    return counters;
  }

  const OpenedDevice device_ = {MakeNullDevice(), MakeNullExterns()};
  Tensor x_ = FloatTensor({4}, {1, 2, 3, 4});
  std::vector<InputValue> inputs_;
};

TEST_F(SessionGraphsTest, AnExecutorThatServesNoMoreGoesWithItsRecordings) {
  SessionGraphs graphs(device_, {});
  std::shared_ptr<const Executor> first = NewExecutor();
  std::shared_ptr<const Executor> second = NewExecutor();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Run(graphs, first).ok());
    ASSERT_TRUE(Run(graphs, second).ok());
  }
  EXPECT_EQ(Counters(graphs).recordings, 2);
  const std::weak_ptr<const Executor> alive = first;
  graphs.Forget(first);
  // A run that had begun before comes late, and is a plain one.
  ASSERT_TRUE(Run(graphs, first).ok());
  EXPECT_EQ(Counters(graphs).warm_ups, 2);
  first.reset();
  EXPECT_TRUE(alive.expired());
  const int64_t replays = Counters(graphs).replays;
  ASSERT_TRUE(Run(graphs, second).ok());
  EXPECT_EQ(Counters(graphs).replays, replays + 1);
}

TEST_F(SessionGraphsTest, ResultsThatAreHeldKeepAForgottenExecutorToTheirEnd) {
  SessionGraphs graphs(device_, {});
  std::shared_ptr<const Executor> first = NewExecutor();
  const std::shared_ptr<const Executor> second = NewExecutor();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run(graphs, first).ok());
  auto held = Run(graphs, first);
  ASSERT_TRUE(held.ok()) << held.status();
  const std::weak_ptr<const Executor> alive = first;
  graphs.Forget(first);
  first.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_THAT(FloatValues(std::get<Tensor>((*held)[0])),
              testing::ElementsAre(1, 2, 3, 4));
  held->clear();
  // The first one still goes behind what was held.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(graphs, second).ok());
  EXPECT_TRUE(alive.expired());
}

TEST_F(SessionGraphsTest, ItsMemoryHasTheLimitOfItsOptionsAndSaysWhoHoldsIt) {
  const std::shared_ptr<const Executor> executor = NewExecutor();
  SessionGraphs limited(device_, {.memory_limit_bytes = 1000});
  EXPECT_THAT(Run(limited, executor).status().message(),
              HasSubstr("limit 1000"));
  EXPECT_EQ(limited.MemoryText(), "");
  SessionGraphs graphs(device_, {});
  const auto held = Run(graphs, executor);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_THAT(graphs.MemoryText(),
              HasSubstr("512 allocated, plan 0: y, step 0"));
}

}  // namespace
}  // namespace kiln

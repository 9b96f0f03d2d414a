#include "runtime/launch_hooks.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// y = (x + 1) + 2 for x: f32[N], by one kernel that is launched twice.
constexpr char kTwoAdds[] = R"(
  symbols { name: "s0" source { kind: KIND_SIZE input: 0 dim: 0 } min: 0 max: 1000 }
  inputs { tensor { dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL value: 0 } } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x"
    bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } }
  buffers { kind: KIND_OUTPUT name: "y"
    bytes { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } }
  kernels { symbol: "test_add" label: "kiln_poi_fused_add_0" origins: "add"
    bytes_read { code { op: SYM_OP_SYMBOL } code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } }
    bytes_written { value: 8 } mapping: "XBLOCK=16,CLUSTER=4" extents { code { op: SYM_OP_SYMBOL } } }
  steps { fill { to { buffer: 1 dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL } } strides { value: 1 } } } }
  steps { launch { kernel: 0
    args { buffer { buffer: 0 dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL } } } }
    args { buffer { buffer: 1 } }
    args { scalar { code { op: SYM_OP_SYMBOL } } } args { scalar { value: 1 } }
    grid { code { op: SYM_OP_SYMBOL } } grid { value: 1 } grid { value: 1 }
    block: 1 block: 1 block: 1 client_nodes: 3 client_nodes: 5 } }
  steps { launch { kernel: 0
    args { buffer { buffer: 1 } } args { buffer { buffer: 1 } }
    args { scalar { code { op: SYM_OP_SYMBOL } } } args { scalar { value: 2 } }
    grid { code { op: SYM_OP_SYMBOL } } grid { value: 1 } grid { value: 1 }
    block: 1 block: 1 block: 1 } }
  outputs { view { buffer: 1 dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL } } strides { value: 1 } } }
)";

constexpr char kSource[] = "\n// test_add\n";

std::shared_ptr<const Executor> LoadTwoAdds() {
  wire::Artifact artifact = MakeTestArtifact(kTwoAdds);
  artifact.mutable_compiled()->add_units()->set_source(kSource);
  auto executor = Load(Seal(artifact), TestCpu());
  EXPECT_TRUE(executor.ok()) << executor.status();
  return executor.ok() ? *executor : nullptr;
}

class Watcher : public LaunchHooks {
 public:
  void Enter(const Launch& launch) override {
    lines.push_back(absl::StrCat("enter ", launch.name()));
    facts.push_back(launch.Facts());
  }
  void Exit(const Launch& launch) override {
    lines.push_back(absl::StrCat("exit ", launch.name()));
  }
  std::vector<std::string> lines;
  std::vector<LaunchFacts> facts;
};

TEST(LaunchHooks, EachLaunchOfARunIsEnteredAndLeft) {
  const auto executor = LoadTwoAdds();
  ASSERT_NE(executor, nullptr);
  Watcher watcher;
  auto outputs =
      executor->Run({FloatTensor({2}, {1, 2})}, {.launches = &watcher});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(FloatValues(std::get<Tensor>((*outputs)[0])), ElementsAre(4, 5));
  EXPECT_THAT(
      watcher.lines,
      ElementsAre("enter kiln_poi_fused_add_0", "exit kiln_poi_fused_add_0",
                  "enter kiln_poi_fused_add_0", "exit kiln_poi_fused_add_0"));
}

TEST(LaunchHooks, FactsAreThoseOfTheCallAtHand) {
  const auto executor = LoadTwoAdds();
  ASSERT_NE(executor, nullptr);
  Watcher watcher;
  ASSERT_TRUE(
      executor->Run({FloatTensor({3}, {1, 2, 3})}, {.launches = &watcher})
          .ok());
  ASSERT_EQ(watcher.facts.size(), 2);
  const LaunchFacts& facts = watcher.facts[0];
  EXPECT_EQ(facts.name, "kiln_poi_fused_add_0");
  EXPECT_EQ(facts.symbol, "test_add");
  EXPECT_THAT(facts.operators, ElementsAre("add"));
  EXPECT_THAT(facts.client_nodes, ElementsAre(3, 5));
  EXPECT_THAT(watcher.facts[1].client_nodes, IsEmpty());
  EXPECT_THAT(facts.grid, ElementsAre(3, 1, 1));
  EXPECT_EQ(facts.bytes_read, 12);
  EXPECT_EQ(facts.bytes_written, 8);
  EXPECT_EQ(facts.source, kSource);
  ASSERT_EQ(facts.arguments.size(), 4);
  EXPECT_TRUE(facts.arguments[0].is_tensor);
  EXPECT_THAT(facts.arguments[0].sizes, ElementsAre(3));
  EXPECT_FALSE(facts.arguments[1].is_tensor);
  EXPECT_FALSE(facts.arguments[2].is_tensor);
  EXPECT_EQ(facts.mapping, "XBLOCK=16,CLUSTER=4");
  EXPECT_EQ(facts.cluster, 4u);
  EXPECT_THAT(facts.extents, ElementsAre(3));
}

TEST(LaunchHooks, AnEmptyGridIsNoLaunch) {
  const auto executor = LoadTwoAdds();
  ASSERT_NE(executor, nullptr);
  Watcher watcher;
  ASSERT_TRUE(
      executor->Run({FloatTensor({0}, {})}, {.launches = &watcher}).ok());
  EXPECT_THAT(watcher.lines, IsEmpty());
}

}  // namespace
}  // namespace kiln

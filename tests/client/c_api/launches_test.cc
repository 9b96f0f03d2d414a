#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"
#include "tests/client/c_api/local_session.h"

// What is told of launches: from which nodes of the caller's graph they come.

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kElements = 8;

void SetVector(wire::TensorMeta& meta) {
  meta.set_dtype(wire::DTYPE_FLOAT32);
  meta.add_sizes()->set_value(kElements);
  meta.add_strides()->set_value(1);
  meta.set_device(wire::DEVICE_TYPE_CPU);
}

// cos(sin(x)), each node with the line of a program.
std::string SinCos() {
  wire::Graph graph;
  graph.set_name("sin_cos");
  wire::Input& x = *graph.add_inputs();
  x.set_name("x");
  SetVector(*x.mutable_tensor());
  for (const char* op : {"sin", "cos"}) {
    wire::Node& node = *graph.add_nodes();
    node.set_op(absl::StrCat("aten.", op, ".default"));
    node.set_name(absl::StrCat(op, "_7"));
    node.set_stack_trace(absl::StrCat("model.py:", graph.nodes_size()));
    node.add_args()->set_value(graph.nodes_size() - 1);
    SetVector(*node.add_results());
  }
  graph.add_outputs()->set_value(2);
  return graph.SerializeAsString();
}

class Launches : public LocalSession {
 protected:
  void SetUp() override {
    const std::string bytes = SinCos();
    KilnGraph* graph = nullptr;
    ASSERT_EQ(kiln_graph_parse(bytes.data(), bytes.size(), &graph), nullptr);
    ASSERT_EQ(kiln_compile(session(), graph, &callable_), nullptr);
    kiln_graph_free(graph);
  }
  void TearDown() override { kiln_callable_free(callable_); }

  void Run(const KilnRunOptions& options) {
    float data[kElements] = {};
    const int64_t size = kElements, stride = 1;
    const KilnValue x = {KILN_TENSOR, KILN_FLOAT32, 1, data, &size, &stride, 0};
    KilnResults* results = nullptr;
    ASSERT_EQ(kiln_run_with(callable_, &x, 1, &options, &results), nullptr);
    kiln_results_free(results);
  }

  KilnCallable* callable_ = nullptr;
};

void TellNodes(void* context, KilnLaunch* launch, int32_t after) {
  if (after != 0) return;
  KilnLaunchFacts facts = {};
  facts.struct_size = sizeof(facts);
  ASSERT_EQ(kiln_launch_facts(launch, &facts), nullptr);
  for (int32_t i = 0; i < facts.node_count; ++i) {
    const KilnNode& node = facts.nodes[i];
    static_cast<std::vector<std::string>*>(context)->push_back(
        absl::StrCat(node.name, " ", node.op, " ", node.stack_trace));
  }
}

TEST_F(Launches, ALaunchNamesTheNodesOfTheCallersGraph) {
  std::vector<std::string> nodes;
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  options.on_launch = &TellNodes;
  options.launch_context = &nodes;
  Run(options);
  EXPECT_THAT(nodes, ElementsAre("sin_7 aten.sin.default model.py:1",
                                 "cos_7 aten.cos.default model.py:2"));
}

// Facts as the first version of the struct had them: without nodes.
void TellLittle(void* context, KilnLaunch* launch, int32_t) {
  struct {
    KilnLaunchFacts facts;
  } guarded = {};
  guarded.facts.struct_size = offsetof(KilnLaunchFacts, nodes);
  guarded.facts.node_count = -7;
  ASSERT_EQ(kiln_launch_facts(launch, &guarded.facts), nullptr);
  EXPECT_EQ(guarded.facts.node_count, -7);
  *static_cast<std::string*>(context) = guarded.facts.operators;
}

TEST_F(Launches, ACallerThatKnowsNoNodesIsToldTheRest) {
  std::string operators;
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  options.on_launch = &TellLittle;
  options.launch_context = &operators;
  Run(options);
  EXPECT_EQ(operators, "sin,cos");
}

TEST_F(Launches, ATraceNamesTheNodesOfItsSteps) {
  KilnTrace* const trace = kiln_trace_new();
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  options.trace = trace;
  Run(options);
  std::string json(kiln_trace_json(trace, nullptr, 0), '\0');
  kiln_trace_json(trace, json.data(), json.size() + 1);
  kiln_trace_free(trace);
  EXPECT_THAT(json,
              HasSubstr(R"("args":{"nodes":["sin_7: aten.sin.default, at )"
                        R"(model.py:1","cos_7: aten.cos.default, at )"
                        R"(model.py:2"]})"));
}

}  // namespace
}  // namespace kiln

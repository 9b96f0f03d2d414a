#include <filesystem>
#include <string>
#include <vector>

#include "client/graph_builder.h"
#include "client/session.h"
#include "gtest/gtest.h"
#include "proto/base/refusal.h"
#include "proto/base/status.h"
#include "tests/support/test_daemon.h"

// What a program learns of the nodes of its graph that Kiln does not compile: from a
// whole daemon with the real worker, and from a worker of its own.

namespace kiln {
namespace {

constexpr ErrorReason kUnsupported = ErrorReason::kUnsupportedOp;

std::string RealWorker() {
  return std::filesystem::absolute("compiler/kiln-worker").string();
}

class RefusedGraphs : public testing::Test {
 protected:
  RefusedGraphs()
      : daemon_([](Config& config) { config.worker_program = RealWorker(); }) {
    SessionOptions options;
    options.daemon.socket = daemon_.config().socket;
    options.daemon.answer_timeout = absl::Seconds(60);
    sessions_.push_back(Session::Open(options).value());
    options.local_only = true;
    options.local_worker = {.program = RealWorker(),
                            .scratch_root = testing::TempDir()};
    sessions_.push_back(Session::Open(options).value());
  }

  // What both are told.
  void ExpectRefused(const GraphBuilder& graph,
                     const std::vector<Refusal>& due) {
    for (const auto& session : sessions_) {
      const absl::Status status =
          session->Compile(graph.Build().value()).status();
      EXPECT_EQ(ReasonOf(status), due[0].reason) << status;
      EXPECT_EQ(RefusalsOf(status).refusals, due) << status;
    }
  }

 private:
  TestDaemon daemon_;
  std::vector<std::shared_ptr<Session>> sessions_;
};

const TensorSpec kRows = {DType::kFloat32, {6, 4}};

TEST_F(RefusedGraphs, AllNodesAtTheDoorAreNamed) {
  GraphBuilder g("door");
  Value v = g.Input("x", kRows);
  std::vector<Refusal> due;
  for (uint32_t i = 0; i < 300; ++i) {
    const bool known = i % 3 == 0;
    const std::string op =
        known ? "aten.sin.default"
              : std::string("qqqqqqqq.") + (i % 3 == 1 ? "one" : "two");
    v = g.Node(op, {v}, kRows);
    if (!known) {
      due.push_back({i, op, kUnsupported, "operator " + op + " is not known"});
    }
  }
  g.Output(v);
  ExpectRefused(g, due);
}

// Nodes 0 and 4 go, 1 becomes several and 2 others before 3 is refused, by the step
// that decomposes operators.
TEST_F(RefusedGraphs, ANodeThatADecompositionRefusesKeepsItsNumber) {
  GraphBuilder g("decomposed");
  const Value x = g.Input("x", kRows);
  g.Node("aten.sin.default", {x}, kRows);
  const Value silu = g.Node("aten.silu.default", {x}, kRows);
  const Value gelu = g.Node("aten.gelu.default", {silu}, kRows);
  const Value inner = g.Node("aten.mvlgamma.default", {gelu, 100}, kRows);
  g.Node("aten.cos.default", {inner}, kRows);
  const Value outer = g.Node("aten.mvlgamma.default", {inner, 99}, kRows);
  g.Output(outer);
  const std::string why = "aten.mvlgamma.default: p outside of 1 to 64";
  ExpectRefused(g, {{3, "aten.mvlgamma.default", kUnsupported, why},
                    {5, "aten.mvlgamma.default", kUnsupported, why}});
}

// As before, by the step that makes loops.
TEST_F(RefusedGraphs, ANodeThatHasNoLoopsKeepsItsNumber) {
  GraphBuilder g("views");
  const Value x = g.Input("x", kRows);
  g.Node("aten.sin.default", {x}, kRows);
  const Value silu = g.Node("aten.silu.default", {x}, kRows);
  const TensorSpec bits = {DType::kInt32, {6, 4}};
  const Value as_bits = g.Node("aten.view.dtype", {silu, DType::kInt32}, bits);
  const Value twice = g.Node("aten.add.Tensor", {as_bits, as_bits}, bits);
  g.Output(g.Node("aten.view.dtype", {twice, DType::kFloat32}, kRows));
  const std::string why = "aten.view.dtype: to another dtype";
  ExpectRefused(g, {{2, "aten.view.dtype", kUnsupported, why},
                    {4, "aten.view.dtype", kUnsupported, why}});
}

TEST_F(RefusedGraphs, AResultThatIsNotAsDeclaredIsTheNodes) {
  GraphBuilder g("declared");
  const Value x = g.Input("x", kRows);
  const Value sin = g.Node("aten.sin.default", {x}, kRows);
  const Value wrong =
      g.Node("aten.cos.default", {sin}, {DType::kFloat32, {6, 5}});
  g.Output(wrong);
  ExpectRefused(
      g, {{1, "aten.cos.default", ErrorReason::kMalformedGraph,
           "aten.cos.default: result 0: found f32[6, 5], inference gives "
           "f32[6, 4]"}});
}

}  // namespace
}  // namespace kiln

// The tuning road with the real worker: measured on this processor, kept, used
// by the next compile.
#include <string>

#include "absl/strings/str_cat.h"
#include "client/graph_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/daemon.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using ::kiln::wire::CompileResult;
using testing::Contains;

constexpr DType kF32 = DType::kFloat32;
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 1024;

void UseRealWorker(Config& config) {
  config.worker_program =
      absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/compiler/kiln-worker");
  config.worker_count = 1;
}

wire::CompileRequest RequestOf(const GraphBuilder& g) {
  wire::CompileRequest request;
  const auto graph = g.Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  *request.mutable_graph() = *graph;
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  return request;
}

wire::CompileRequest RowSums(int64_t columns) {
  GraphBuilder g("row_sums");
  const Value x = g.Input("x", {kF32, {kRows, columns}});
  g.Output(g.Node("aten.sum.dim_IntList", {x, Arg::List({Arg(1)}), false},
                  {kF32, {kRows}}));
  return RequestOf(g);
}

wire::Artifact Compile(TestDaemon& d, const wire::CompileRequest& request,
                       CompileResult::ServedFrom from) {
  const CompileAnswer answer = d.client().Compile(request, absl::Minutes(4));
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.result.served_from(), from);
  wire::Artifact artifact;
  EXPECT_TRUE(artifact.ParseFromString(answer.result.artifact().artifact()));
  return artifact;
}

TEST(Tuning, TheWinnerIsKeptAndTheNextCompileOfItsRowUsesIt) {
  TestDaemon d(UseRealWorker);
  const auto before =
      Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_COMPILE);
  ASSERT_EQ(before.compiled().tuned_size(), 1);
  Compile(d, RowSums(8 * kColumns), CompileResult::SERVED_FROM_COMPILE);

  grpc::ClientContext context;
  wire::TuneRequest tune;
  tune.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  tune.set_rows(kRows);
  tune.set_columns(kColumns);
  tune.set_dtype("float32");
  wire::TuneReply reply;
  const grpc::Status status = d.client().admin().Tune(&context, tune, &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(reply.choices_size(), 1);
  EXPECT_EQ(reply.seconds_size(), reply.choices_size());
  EXPECT_THAT(reply.choices(), Contains(reply.choice()));
  EXPECT_EQ(before.compiled().tuned(0), absl::StrCat(reply.key(), " "));

  const auto after =
      Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_COMPILE);
  ASSERT_EQ(after.compiled().tuned_size(), 1);
  EXPECT_EQ(after.compiled().tuned(0),
            absl::StrCat(reply.key(), " ", reply.choice()));
  Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_CACHE);
  // Rows of another length are another row of the table.
  Compile(d, RowSums(8 * kColumns), CompileResult::SERVED_FROM_CACHE);
}

TEST(Tuning, APoolMeasuresVariantsThatItIsGiven) {
  TestDaemon d(UseRealWorker);
  const auto made =
      Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_COMPILE);
  const wire::CompilePlan& compiled = made.compiled();
  ASSERT_EQ(compiled.units_size(), 1);
  wire::WorkRequest request;
  wire::MeasureRequest& measure = *request.mutable_measure();
  measure.set_key("row_sums");
  measure.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  for (const char* choice : {"one", "the same"}) {
    *measure.add_variants() = compiled.units(0);
    measure.add_choices(choice);
    wire::LaunchStep& launch = *measure.add_launches();
    for (const wire::PlanStep& step : compiled.plan().steps()) {
      if (step.has_launch()) launch = step.launch();
    }
    // Number 0 is the unit's first kernel, and the buffers are ours.
    launch.set_kernel(0);
    uint32_t buffer = 0;
    for (wire::KernelArg& arg : *launch.mutable_args()) {
      if (arg.has_buffer()) arg.mutable_buffer()->set_buffer(buffer++);
    }
    ASSERT_EQ(buffer, 2u);
  }
  measure.add_buffer_bytes(kRows * kColumns * 4);
  measure.add_buffer_bytes(kRows * 4);
  const auto good = d.daemon().pool().Submit(request);
  const auto reply = good->Wait();
  ASSERT_TRUE(reply.ok()) << reply.status();
  const wire::TuningDecision& decision = (*reply)->measure();
  EXPECT_EQ(decision.key(), "row_sums");
  ASSERT_EQ(decision.seconds_size(), 2);
  EXPECT_GT(decision.seconds(0), 0);
  EXPECT_THAT(decision.choices(), Contains(decision.choice()));

  measure.mutable_buffer_bytes()->RemoveLast();
  const auto bad = d.daemon().pool().Submit(request);
  EXPECT_EQ(ReasonOf(bad->Wait().status()), ErrorReason::kBadOption);
  measure.mutable_target()->mutable_cuda()->set_arch("sm_10");
  const auto nowhere = d.daemon().pool().Submit(request);
  EXPECT_EQ(ReasonOf(nowhere->Wait().status()), ErrorReason::kBadTarget);
}

}  // namespace
}  // namespace kiln

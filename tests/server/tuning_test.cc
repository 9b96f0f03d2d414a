// The tuning road with the real worker: measured on this processor, kept, used
// by the next compile.
#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/compile_client.h"
#include "client/graph_builder.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/daemon.h"
#include "server/worker_pool.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/nvrtc_of_tests.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using ::kiln::wire::CompileResult;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::Gt;
using testing::HasSubstr;
using testing::StartsWith;

constexpr DType kF32 = DType::kFloat32;
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 1024;

void UseRealWorker(Config& config) {
  config.worker_program =
      absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/compiler/kiln-worker");
  config.worker_count = 1;
  if (const char* folders = getenv("KILN_CUDA_LIBRARY_PATH"))
    config.worker_env = {absl::StrCat("KILN_CUDA_LIBRARY_PATH=", folders)};
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

TEST(Tuning, TheWinnerIsKeptAndTheNextCompileOfItsKeyUsesIt) {
  TestDaemon d(UseRealWorker);
  const auto before =
      Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_COMPILE);
  ASSERT_EQ(before.compiled().tuned_size(), 1);
  Compile(d, RowSums(8 * kColumns), CompileResult::SERVED_FROM_COMPILE);
  const wire::LookupRequest lookup = LookupFor(RowSums(kColumns));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(d.client().Lookup(lookup)->outcome(),
              wire::LookupReply::OUTCOME_HIT);
  }

  grpc::ClientContext context;
  wire::TuneRequest tune;
  *tune.mutable_compile() = RowSums(kColumns);
  wire::TuneReply reply;
  const grpc::Status status =
      AdminStub(d.client())->Tune(&context, tune, &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(reply.kernels_size(), 1);
  const wire::TunedKernel& tuned = reply.kernels(0);
  EXPECT_THAT(tuned.key(), StartsWith("reduce/f32/2^6x2^10/"));
  EXPECT_GT(tuned.choices_size(), 1);
  EXPECT_EQ(tuned.seconds_size(), tuned.choices_size());
  EXPECT_THAT(tuned.seconds(), Each(Gt(0)));
  EXPECT_THAT(tuned.choices(), Contains(tuned.choice()));
  EXPECT_EQ(before.compiled().tuned(0), absl::StrCat(tuned.key(), " "));

  // What was found before is no answer now, though the request is known.
  EXPECT_EQ(d.client().Lookup(lookup)->outcome(),
            wire::LookupReply::OUTCOME_GUARD_MISS);
  const auto after =
      Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_COMPILE);
  ASSERT_EQ(after.compiled().tuned_size(), 1);
  EXPECT_EQ(after.compiled().tuned(0),
            absl::StrCat(tuned.key(), " ", tuned.choice()));
  Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_CACHE);
  // Rows of another length have another key.
  Compile(d, RowSums(8 * kColumns), CompileResult::SERVED_FROM_CACHE);
}

wire::TuneReply Tune(TestDaemon& d, const wire::CompileRequest& request) {
  grpc::ClientContext context;
  wire::TuneRequest tune;
  *tune.mutable_compile() = request;
  wire::TuneReply reply;
  const grpc::Status status =
      AdminStub(d.client())->Tune(&context, tune, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return reply;
}

TEST(Tuning, DeterministicModeKeepsTheDecisionsOfItsFirstCompile) {
  TestDaemon d(UseRealWorker);
  wire::CompileRequest request = RowSums(kColumns);
  request.mutable_options()->mutable_artifact()->set_deterministic(true);
  const auto before = Compile(d, request, CompileResult::SERVED_FROM_COMPILE);
  ASSERT_EQ(before.compiled().tuned_size(), 1);
  EXPECT_THAT(before.compiled().tuned(0), EndsWith(" ="));
  const wire::TuneReply reply = Tune(d, request);
  ASSERT_EQ(reply.kernels_size(), 1);
  EXPECT_EQ(before.compiled().tuned(0),
            absl::StrCat(reply.kernels(0).key(), " ="));
  const auto after = Compile(d, request, CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
}

TEST(Tuning, DeterministicModeTakesWhatWasMeasuredBeforeItsFirstCompile) {
  TestDaemon d(UseRealWorker);
  wire::CompileRequest request = RowSums(kColumns);
  request.mutable_options()->mutable_artifact()->set_deterministic(true);
  request.mutable_options()->set_max_autotune(true);
  const auto client = CompileClient::Connect({.socket = d.config().socket});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto outcome = (*client)->Compile(request, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->measured.ok()) << outcome->measured;
  EXPECT_EQ(d.count(Count::kTuned), 1);
  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(outcome->artifact.artifact()));
  ASSERT_EQ(artifact.compiled().tuned_size(), 1);
  EXPECT_THAT(artifact.compiled().tuned(0), HasSubstr(" =cpu "));
  // There is nothing more to measure.
  ASSERT_TRUE((*client)->Compile(request, {}).ok());
  EXPECT_EQ(d.count(Count::kTuned), 1);
}

TEST(Tuning, WhatManyMissIsMeasuredOnce) {
  TestDaemon d(UseRealWorker);
  wire::CompileRequest request = RowSums(kColumns);
  request.mutable_options()->set_max_autotune(true);
  const auto run = [&] {
    const auto client = CompileClient::Connect({.socket = d.config().socket});
    EXPECT_TRUE(client.ok()) << client.status();
    const auto outcome = (*client)->Compile(request, {});
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? outcome->measured : outcome.status();
  };
  // More than the daemon has places for at a time.
  std::vector<std::future<absl::Status>> ranks;
  for (int rank = 0; rank < 6; ++rank)
    ranks.push_back(std::async(std::launch::async, run));
  for (std::future<absl::Status>& rank : ranks) {
    const absl::Status measured = rank.get();
    EXPECT_TRUE(measured.ok()) << measured;
  }
  EXPECT_EQ(d.count(Count::kTuned), 1);
  // Who asks for all has measured again what there is.
  grpc::ClientContext context;
  wire::TuneRequest tune;
  *tune.mutable_compile() = request;
  wire::TuneReply reply;
  ASSERT_TRUE(AdminStub(d.client())->Tune(&context, tune, &reply).ok());
  EXPECT_EQ(reply.kernels_size(), 1);
  EXPECT_EQ(d.count(Count::kTuned), 2);
}

TEST(Tuning, AClientThatWantsItHasTheGraphMeasuredFirst) {
  TestDaemon d(UseRealWorker);
  const auto client = CompileClient::Connect({.socket = d.config().socket});
  ASSERT_TRUE(client.ok()) << client.status();
  wire::CompileRequest request = RowSums(kColumns);
  request.mutable_options()->set_max_autotune(true);
  const auto outcome = (*client)->Compile(request, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->measured.ok()) << outcome->measured;
  EXPECT_EQ(d.count(Count::kTuned), 1);
  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(outcome->artifact.artifact()));
  ASSERT_EQ(artifact.compiled().tuned_size(), 1);
  EXPECT_THAT(artifact.compiled().tuned(0), HasSubstr(" cpu "));
  // The option is not in the key: who does not measure gets the same.
  request.mutable_options()->set_max_autotune(false);
  const auto again = (*client)->Compile(request, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->served_from, CompileResult::SERVED_FROM_CACHE);
}

// No GPU here, or one that is not of that kind: the compile goes on.
TEST(Tuning, WhatCannotBeMeasuredFailsNoCompile) {
  KILN_LEAVE_WITHOUT_NVRTC(
      MakeNvrtcToolchain({.library_dirs = NvrtcFoldersOfTests()})
          ->Version()
          .status());
  TestDaemon d(UseRealWorker);
  const auto client = CompileClient::Connect({.socket = d.config().socket});
  ASSERT_TRUE(client.ok()) << client.status();
  wire::CompileRequest request = RowSums(kColumns);
  request.mutable_target()->mutable_cuda()->set_arch("sm_100");
  request.mutable_options()->set_max_autotune(true);
  const auto outcome = (*client)->Compile(request, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(ReasonOf(outcome->measured), ErrorReason::kNoDevice);
}

TEST(Tuning, APoolMeasuresTheChoicesThatItIsGiven) {
  TestDaemon d(UseRealWorker);
  const auto made =
      Compile(d, RowSums(kColumns), CompileResult::SERVED_FROM_COMPILE);
  ASSERT_EQ(made.compiled().tuned_size(), 1);
  wire::WorkRequest request;
  wire::MeasureRequest& measure = *request.mutable_measure();
  *measure.mutable_compile() = RowSums(kColumns);
  measure.set_key(
      std::string(absl::StripSuffix(made.compiled().tuned(0), " ")));
  measure.add_choices("cpu rows accumulators 4 block 4096 grain 16384");
  measure.add_choices("cpu columns strip 4 block 256 unroll 4 grain 16384");
  const auto good = d.daemon().pool().Submit(request);
  const auto reply = good->Wait();
  ASSERT_TRUE(reply.ok()) << reply.status();
  const wire::TuningDecision& decision = (*reply)->measure();
  EXPECT_EQ(decision.key(), measure.key());
  EXPECT_THAT(
      decision.choices(),
      ElementsAre("cpu rows accumulators 4 block 4096 grain 16384",
                  "cpu columns strip 4 block 256 unroll 4 grain 16384"));
  EXPECT_THAT(decision.seconds(), ElementsAre(Gt(0), Gt(0)));
  EXPECT_THAT(decision.choices(), Contains(decision.choice()));

  measure.add_choices("cpu rows accumulators 1000 block 4096 grain 16384");
  const auto bad_choice = d.daemon().pool().Submit(request);
  EXPECT_EQ(ReasonOf(bad_choice->Wait().status()), ErrorReason::kBadOption);
  measure.clear_choices();
  measure.set_key("reduce/f32/2^6x2^10/no_such_key/x86-64-v3");
  const auto bad_key = d.daemon().pool().Submit(request);
  EXPECT_EQ(ReasonOf(bad_key->Wait().status()), ErrorReason::kBadOption);
  measure.mutable_compile()->mutable_target()->mutable_cuda()->set_arch(
      "sm_10");
  const auto nowhere = d.daemon().pool().Submit(request);
  EXPECT_EQ(ReasonOf(nowhere->Wait().status()), ErrorReason::kBadTarget);
}

}  // namespace
}  // namespace kiln

// What a daemon with the real compile worker must survive: every mistake that
// only a compiler sees gets a typed status with subject, found and due, nothing
// is stored, and the next good request is served.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/graph_builder.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/daemon.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using ::kiln::wire::CompileResult;

constexpr DType kF32 = DType::kFloat32;

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

// y = x + x, over any number of rows.
wire::CompileRequest Sum() {
  GraphBuilder g("sum");
  const SizeExpr n = g.Symbol("N", {.hint = 8});
  const Value x = g.Input("x", {kF32, {n, 16}});
  g.Output(g.Node("aten.add.Tensor", {x, x}, {kF32, {n, 16}}));
  return RequestOf(g);
}

wire::Node& TheNode(wire::CompileRequest& request) {
  return *request.mutable_graph()->mutable_nodes(0);
}

// The daemon is well and empty, and no worker was lost.
void ExpectNothingHappened(TestDaemon& d) {
  ExpectWellAndEmpty(d, Sum());
  EXPECT_EQ(d.count(Count::kWorkersDied), 0);
}

struct Row {
  const char* what;
  ErrorReason reason;
  std::vector<const char*> words;  // subject, found, due
  std::function<void(wire::CompileRequest&)> spoil;
};

void ExpectRefused(TestDaemon& d, const Row& row) {
  wire::CompileRequest request = Sum();
  row.spoil(request);
  const absl::Status status =
      d.client().Compile(request, absl::Minutes(4)).status;
  EXPECT_EQ(ReasonOf(status), row.reason) << row.what << ": " << status;
  for (const char* word : row.words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word))
        << row.what << ": no `" << word << "` in " << status;
  }
}

TEST(RealWorker, RefusesOperatorsThatItDoesNotHaveOrThatAreUsedWrongly) {
  TestDaemon d(UseRealWorker);
  const Row rows[] = {
      {"an unknown operator",
       ErrorReason::kUnsupportedOp,
       {"aten.no_such_op.default"},
       [](wire::CompileRequest& r) {
         TheNode(r).set_op("aten.no_such_op.default");
       }},
      {"an operator that is no name",
       ErrorReason::kUnsupportedOp,
       {"nonsense"},
       [](wire::CompileRequest& r) { TheNode(r).set_op("nonsense"); }},
      {"too few arguments",
       ErrorReason::kMalformedGraph,
       {"aten.add.Tensor", "other"},
       [](wire::CompileRequest& r) {
         TheNode(r).mutable_args()->RemoveLast();
       }},
      {"too many arguments",
       ErrorReason::kMalformedGraph,
       {"aten.add.Tensor", "3"},
       [](wire::CompileRequest& r) {
         for (int i = 0; i < 3; ++i) TheNode(r).add_args()->set_int_value(1);
       }},
      {"an argument of the wrong type",
       ErrorReason::kMalformedGraph,
       {"aten.add.Tensor", "other"},
       [](wire::CompileRequest& r) {
         TheNode(r).mutable_args(1)->set_string_value("word");
       }},
      {"a named argument that the operator does not have",
       ErrorReason::kMalformedGraph,
       {"aten.add.Tensor", "gamma"},
       [](wire::CompileRequest& r) {
         wire::NamedArgument& named = *TheNode(r).add_kwargs();
         named.set_name("gamma");
         named.mutable_value()->set_int_value(1);
       }},
      {"two results of an operator that has one",
       ErrorReason::kMalformedGraph,
       {"aten.add.Tensor", "2"},
       [](wire::CompileRequest& r) {
         *TheNode(r).add_results() = TheNode(r).results(0);
       }},
  };
  for (const Row& row : rows) ExpectRefused(d, row);
  ExpectNothingHappened(d);
}

TEST(RealWorker, RefusesShapesThatContradict) {
  TestDaemon d(UseRealWorker);
  const Row rows[] = {
      {"the result is not what the operator gives",
       ErrorReason::kMalformedGraph,
       {"aten.add.Tensor", "16", "17"},
       [](wire::CompileRequest& r) {
         TheNode(r).mutable_results(0)->mutable_sizes(1)->set_value(17);
       }},
      {"the result's dtype is not what the operator gives",
       ErrorReason::kMalformedGraph,
       {"aten.add.Tensor"},
       [](wire::CompileRequest& r) {
         TheNode(r).mutable_results(0)->set_dtype(wire::DTYPE_INT64);
       }},
      {"operands that do not broadcast",
       ErrorReason::kMalformedGraph,
       {"16", "15"},
       [](wire::CompileRequest& r) {
         GraphBuilder g("sum");
         const Value x = g.Input("x", {kF32, {8, 16}});
         const Value y = g.Input("y", {kF32, {8, 15}});
         g.Output(g.Node("aten.add.Tensor", {x, y}, {kF32, {8, 16}}));
         r = RequestOf(g);
       }},
      {"a piece that leaves its dimension",
       ErrorReason::kMalformedGraph,
       {"narrow", "16"},
       [](wire::CompileRequest& r) {
         GraphBuilder g("piece");
         const Value x = g.Input("x", {kF32, {8, 16}});
         g.Output(g.Node("aten.narrow.default", {x, 1, 10, 7},
                         {kF32, {8, 7}, {16, 1}}));
         r = RequestOf(g);
       }},
      {"2^40 elements in the middle",
       ErrorReason::kTooLarge,
       {},
       [](wire::CompileRequest& r) {
         constexpr int64_t kMany = int64_t{1} << 20;
         GraphBuilder g("outer");
         const Value x = g.Input("x", {kF32, {kMany, 1}});
         const Value y = g.Input("y", {kF32, {1, kMany}});
         g.Output(g.Node("aten.add.Tensor", {x, y}, {kF32, {kMany, kMany}}));
         r = RequestOf(g);
       }},
  };
  for (const Row& row : rows) ExpectRefused(d, row);
  ExpectNothingHappened(d);
}

TEST(RealWorker, ARequestWhoseDeadlineHadPassedIsNotBegun) {
  TestDaemon d(UseRealWorker);
  grpc::ClientContext context;
  // By hand: gRPC's client would not send it at all. Nothing, since its server
  // rounds up to milliseconds, and a job may begin in one.
  context.AddMetadata("grpc-timeout", "0n");
  const auto stream = CompileStub(d.client())->Compile(&context, Sum());
  wire::CompileEvent event;
  EXPECT_FALSE(stream->Read(&event));
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
              status.error_code() == grpc::StatusCode::CANCELLED)
      << status.error_code() << " " << status.error_message();
  EXPECT_EQ(d.count(Count::kJobsStarted), 0);
  ExpectNothingHappened(d);
}

TEST(RealWorker, AMachineWithoutACompilerSaysWhatToType) {
  TestDaemon d([](Config& config) {
    UseRealWorker(config);
    config.worker_env = {"KILN_HOST_CC=/nowhere/g++", "KILN_NVRTC=/nowhere"};
  });
  for (int i = 0; i < 2; ++i) {  // it goes on answering
    const absl::Status missing =
        d.client().Compile(Sum(), absl::Minutes(4)).status;
    EXPECT_EQ(ReasonOf(missing), ErrorReason::kNoToolchain) << missing;
    EXPECT_TRUE(absl::StrContains(missing.message(), "/nowhere/g++"))
        << missing;
  }
  ExpectEmpty(d);
  grpc::ClientContext context;
  wire::DescribeReply about;
  ASSERT_TRUE(CompileStub(d.client())->Describe(&context, {}, &about).ok());
  EXPECT_EQ(about.targets_size(), 0);
  EXPECT_EQ(d.count(Count::kWorkersDied), 0);
}

TEST(RealWorker, AMachineWithoutNvrtcSaysWhatToTypeAndCompilesForTheCpu) {
  TestDaemon d([](Config& config) {
    UseRealWorker(config);
    config.worker_env = {"KILN_NVRTC=/nowhere"};
  });
  GraphBuilder g("sum", wire::DEVICE_TYPE_CUDA);
  const Value x = g.Input("x", {kF32, {8, 16}});
  g.Output(g.Node("aten.add.Tensor", {x, x}, {kF32, {8, 16}}));
  wire::CompileRequest request = RequestOf(g);
  request.mutable_target()->mutable_cuda()->set_arch("sm_90");
  const absl::Status missing =
      d.client().Compile(request, absl::Minutes(4)).status;
  EXPECT_EQ(ReasonOf(missing), ErrorReason::kNoToolchain) << missing;
  EXPECT_TRUE(absl::StrContains(missing.message(), "/nowhere")) << missing;
  EXPECT_TRUE(absl::StrContains(missing.message(), "pip install")) << missing;
  ExpectNothingHappened(d);
}

// A folder on a file system in memory, on which nobody else writes.
class MemoryFolder {
 public:
  MemoryFolder() {
    char name[] = "/dev/shm/kiln-test-XXXXXX";
    path_ = mkdtemp(name) == nullptr ? "" : name;
  }
  ~MemoryFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }
  int64_t FreeBytes() const {
    struct statvfs room = {};
    EXPECT_EQ(statvfs(path_.c_str(), &room), 0);
    return static_cast<int64_t>(room.f_bavail) *
           static_cast<int64_t>(room.f_frsize);
  }
  void Fill(int64_t bytes) const {
    const int fd =
        open(absl::StrCat(path_, "/filler").c_str(), O_CREAT | O_WRONLY, 0600);
    EXPECT_EQ(posix_fallocate(fd, 0, bytes), 0);
    close(fd);
  }

 private:
  std::string path_;
};

TEST(RealWorker, AFullDiskCostsStoringOnly) {
  const MemoryFolder disk;
  if (disk.path().empty()) GTEST_SKIP() << "no /dev/shm to fill";
  const int64_t filler = std::min(int64_t{32} << 20, disk.FreeBytes() / 4);
  TestDaemon d([&](Config& config) {
    UseRealWorker(config);
    config.data_folder = absl::StrCat(disk.path(), "/data");
    config.min_free_bytes = disk.FreeBytes() - filler / 2;
  });
  disk.Fill(filler);
  for (int i = 0; i < 2; ++i) {
    const CompileAnswer answer = d.client().Compile(Sum(), absl::Minutes(4));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  }
  EXPECT_GE(d.count(Count::kCacheStoreFailed), 2);
  ExpectEmpty(d);
  std::filesystem::remove(absl::StrCat(disk.path(), "/filler"));
  ASSERT_TRUE(d.client().Compile(Sum(), absl::Minutes(4)).status.ok());
  EXPECT_EQ(d.client().Compile(Sum()).result.served_from(),
            CompileResult::SERVED_FROM_CACHE);
}

}  // namespace
}  // namespace kiln

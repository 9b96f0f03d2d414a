#include "client/corpus_runner/run_case.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/corpus_runner/report_json.h"
#include "client/corpus_runner/retarget_graph.h"
#include "gtest/gtest.h"
#include "tests/support/test_daemon.h"

// Verdicts on cases whose operator is an order to the fake worker; the null
// device runs its plans, which have no results.

namespace kiln {
namespace {

constexpr char kMeta[] =
    R"({"shape": [4], "stride": [1], "dtype": "float32", "device": "cpu",)"
    R"( "storage_offset": 0})";

// A case without data whose only operator is `op`.
std::vector<CorpusCase> CaseOf(const std::string& op) {
  const std::string path = testing::TempDir() + "/case.jsonl";
  std::ofstream(path)
      << R"({"name": "case", "kind": "op", "nodes": [{"name": "x", "op": )"
      << R"("placeholder", "target": "x", "args": [], "kwargs": {}, "meta": )"
      << kMeta << R"(}, {"name": "y", "op": "call_function", "target": ")" << op
      << R"(", "args": [{"node": "x"}, {"device": "cpu"}], "kwargs": {}, )"
      << R"("meta": )" << kMeta << R"(}, {"name": "output", "op": "output", )"
      << R"("args": [[{"node": "y"}]]}], "constants": {}, "inputs": [)" << kMeta
      << "]}\n";
  auto cases = ReadCorpusFile(path);
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *std::move(cases) : std::vector<CorpusCase>();
}

class RunCase : public testing::Test {
 protected:
  void SetUp() override {
    SessionOptions options;
    options.daemon.socket = daemon_.config().socket;
    options.daemon.answer_timeout = absl::Seconds(60);
    options.device.kind = DeviceKind::kNull;
    auto session = Session::Open(options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  CaseResult Run(std::vector<CorpusCase> cases) {
    auto results = RunCases(*session_, std::move(cases), {});
    EXPECT_EQ(results.size(), 1);
    return results.at(0);
  }

  TestDaemon daemon_;
  std::shared_ptr<Session> session_;
};

TEST_F(RunCase, ACaseWithoutDataIsCompiledAndNotCalledOk) {
  const CaseResult result = Run(CaseOf("fake.units.1"));
  EXPECT_EQ(result.verdict, Verdict::kCompiled) << result.detail;
  EXPECT_FALSE(result.ran);
  EXPECT_TRUE(result.figures.has_value());
}

TEST_F(RunCase, WhatTheCompilerDoesNotKnowIsUnimplementedAndNamed) {
  const CaseResult result = Run(CaseOf("fake.error.UNSUPPORTED_OP"));
  EXPECT_EQ(result.verdict, Verdict::kUnimplemented);
  const std::string line = ResultLine(result);
  EXPECT_EQ(line.find("UNIMPLEMENTED"), 0);
  EXPECT_NE(line.find("as told"), std::string::npos);
}

TEST_F(RunCase, WhatTheReaderCannotSayIsUnimplementedToo) {
  const CaseResult result = Run(CaseOf("<built-in function pow>"));
  EXPECT_EQ(result.verdict, Verdict::kUnimplemented);
  EXPECT_NE(result.detail.find("pow"), std::string::npos);
}

TEST_F(RunCase, AnythingElseIsAFailureInOneLine) {
  const CaseResult result = Run(CaseOf("fake.error.TOOLCHAIN_REJECTED"));
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_EQ(ResultLine({.name = "c", .detail = "a\nb"}).find('\n'),
            std::string::npos);
}

TEST_F(RunCase, ResultsThatAreMissingAreWrong) {
  std::vector<CorpusCase> cases = CaseOf("fake.units.1");
  const CorpusTensor tensor = {{DType::kFloat32, {4}, {1}, 0},
                               std::vector<char>(16)};
  cases[0].has_data = true;
  cases[0].inputs = {tensor};
  cases[0].outputs = {tensor};
  cases[0].output_tolerance = {Tolerance()};
  const CaseResult result = Run(std::move(cases));
  EXPECT_EQ(result.verdict, Verdict::kWrong);
  EXPECT_EQ(result.detail, "outputs: found 0, expected 1");
}

TEST_F(RunCase, TheReportIsOneObjectACase) {
  const std::string json = ReportJson({Run(CaseOf("fake.units.2"))});
  for (const char* field :
       {"\"name\": \"case\"", "\"verdict\": \"compiled\"",
        "\"served_from\": \"compile\"", "\"units_built\""}) {
    EXPECT_NE(json.find(field), std::string::npos) << field << json;
  }
}

TEST(RetargetGraph, MovesTensorsAndNamedDevicesAndLeavesResultsToInference) {
  wire::Graph graph = CaseOf("aten.x.default").at(0).graph;
  RetargetGraph(graph, wire::DEVICE_TYPE_CUDA);
  EXPECT_EQ(graph.inputs(0).tensor().device(), wire::DEVICE_TYPE_CUDA);
  ASSERT_EQ(graph.nodes(0).results_size(), 1);
  EXPECT_EQ(graph.nodes(0).results(0).dtype(), wire::DTYPE_UNSPECIFIED);
  EXPECT_EQ(graph.nodes(0).args(1).device(), wire::DEVICE_TYPE_CUDA);
}

}  // namespace
}  // namespace kiln

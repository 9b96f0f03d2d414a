// Runs of a C session as device graphs, on the emulated driver: kernels compute,
// a captured stream keeps them, and what was launched is counted.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/c_api/kiln.h"
#include "client/c_api/kiln_graphs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/c_api/emulated_cuda.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRows = 4;
constexpr int kColumns = 8;
constexpr int kFailedPrecondition = 9;  // gRPC's

// On the device, which is the host's memory here.
struct Matrix {
  explicit Matrix(float first) {
    for (int i = 0; i < kRows * kColumns; ++i) data[i] = first + i % 5;
  }
  alignas(256) float data[kRows * kColumns];
};

KilnValue ValueOf(void* data) {
  static const int64_t sizes[] = {kRows, kColumns};
  static const int64_t strides[] = {kColumns, 1};
  KilnValue value = {};
  value.kind = KILN_TENSOR;
  value.dtype = KILN_FLOAT32;
  value.rank = 2;
  value.data = data;
  value.sizes = sizes;
  value.strides = strides;
  return value;
}

// x less its columns' sums, and times w: a reduction and what follows it.
KilnGraph* NewGraph(KilnDevice device) {
  const KilnSize sizes[] = {{kRows, -1}, {kColumns, -1}};
  const KilnSpec matrix = {KILN_FLOAT32, 2, sizes, nullptr};
  const KilnSpec row = {KILN_FLOAT32, 1, sizes + 1, nullptr};
  KilnGraph* graph = kiln_graph_new("columns", device);
  KilnArg x = {};
  x.kind = KILN_ARG_VALUE;
  x.integer = kiln_graph_input(graph, "x", &matrix);
  KilnArg w = x;
  w.integer = kiln_graph_input(graph, "w", &matrix);
  static const int64_t kFirst = 0;
  KilnArg dims = {};
  dims.kind = KILN_ARG_INTEGERS;
  dims.integers = &kFirst;
  dims.count = 1;
  KilnArg sum = x;
  const KilnArg of_sum[] = {x, dims};
  sum.integer = kiln_graph_node(graph, "aten.sum.dim_IntList", of_sum, 2, &row);
  KilnArg less = x;
  const KilnArg of_less[] = {x, sum};
  less.integer = kiln_graph_node(graph, "aten.sub.Tensor", of_less, 2, &matrix);
  const KilnArg of_product[] = {less, w};
  kiln_graph_output(
      graph, kiln_graph_node(graph, "aten.mul.Tensor", of_product, 2, &matrix));
  return graph;
}

void Expect(const KilnValue& y, const float* x, const float* w) {
  ASSERT_EQ(y.kind, KILN_TENSOR);
  for (int c = 0; c < kColumns; ++c) {
    float sum = 0;
    for (int r = 0; r < kRows; ++r) sum += x[r * kColumns + c];
    for (int r = 0; r < kRows; ++r) {
      const int at = r * kColumns + c;
      ASSERT_EQ(static_cast<const float*>(y.data)[at], (x[at] - sum) * w[at]);
    }
  }
}

class SessionGraphs : public testing::Test {
 protected:
  void Open(KilnDevice device, int32_t graphs,
            const KilnGraphOptions* options = nullptr) {
    session_ = OpenEmulated(device, graphs, options);
    ASSERT_NE(session_, nullptr);
    KilnGraph* const graph = NewGraph(device);
    Take(kiln_compile(session_, graph, &callable_));
    kiln_graph_free(graph);
    ASSERT_NE(callable_, nullptr);
  }
  ~SessionGraphs() override {
    kiln_callable_free(callable_);
    kiln_session_close(session_);
  }

  KilnStatus* TryRun(void* x, void* w, KilnResults** results,
                     KilnTrace* trace = nullptr) {
    const KilnValue inputs[] = {ValueOf(x), ValueOf(w)};
    KilnRunOptions options = {};
    options.struct_size = sizeof(options);
    options.trace = trace;
    return kiln_run_with(callable_, inputs, 2, &options, results);
  }
  KilnResults* Run(void* x, void* w, KilnTrace* trace = nullptr) {
    KilnResults* results = nullptr;
    Take(TryRun(x, w, &results, trace));
    return results;
  }
  // Runs, looks at the values, and tells what the driver was given.
  Counts CountedRun(Matrix& x, Matrix& w, KilnTrace* trace = nullptr) {
    const Counts before = CountsNow();
    KilnResults* const results = Run(x.data, w.data, trace);
    const Counts after = CountsNow();
    if (results != nullptr) {
      Expect(kiln_results_get(results, 0), x.data, w.data);
    }
    kiln_results_free(results);
    return {after.put - before.put, after.graphs - before.graphs};
  }
  KilnGraphReport Report() {
    KilnGraphReport report = {};
    report.struct_size = sizeof(report);
    Take(kiln_session_graph_report(session_, &report));
    return report;
  }
  std::vector<std::string> Notes() {
    std::vector<std::string> notes;
    kiln_session_graph_notes(
        session_,
        [](void* context, KilnGraphNoteKind, int32_t, const char* text) {
          static_cast<std::vector<std::string>*>(context)->push_back(text);
        },
        &notes);
    return notes;
  }

  KilnSession* session_ = nullptr;
  KilnCallable* callable_ = nullptr;
  Matrix w_{2};
};

TEST_F(SessionGraphs, TheSecondRunIsRecordedAndTheThirdIsOneLaunch) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  const int32_t weights = 1;
  Take(kiln_callable_static_inputs(callable_, &weights, 1));
  Matrix first(1), second(30), third(-4);

  const Counts warm_up = CountedRun(first, w_);
  EXPECT_GE(warm_up.put, 1);
  EXPECT_EQ(warm_up.graphs, 0);

  // The copy of x into the graphs' memory, and the graph.
  const Counts recorded = CountedRun(second, w_);
  EXPECT_EQ(recorded.put, 1);
  EXPECT_EQ(recorded.graphs, 1);
  const Counts replayed = CountedRun(third, w_);
  EXPECT_EQ(replayed.put, 1);
  EXPECT_EQ(replayed.graphs, 1);

  const KilnGraphReport report = Report();
  EXPECT_EQ(report.warm_ups, 1);
  EXPECT_EQ(report.recordings, 1);
  EXPECT_EQ(report.replays, 1);
  EXPECT_EQ(report.recorded_copied_inputs, 1);
}

TEST_F(SessionGraphs, WhatNoRunTakesIsRefusedWhereThereIsARecordingToo) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  Matrix x(1);
  for (int i = 0; i < 3; ++i) CountedRun(x, w_);
  static const int64_t transposed[] = {1, kRows};
  KilnValue wrong[] = {ValueOf(x.data), ValueOf(x.data), ValueOf(nullptr)};
  wrong[0].dtype = KILN_INT32;
  wrong[1].strides = transposed;
  const Counts before = CountsNow();
  for (const KilnValue& value : wrong) {
    const KilnValue inputs[] = {value, ValueOf(w_.data)};
    KilnRunOptions options = {};
    options.struct_size = sizeof(options);
    KilnResults* none = nullptr;
    KilnStatus* const status =
        kiln_run_with(callable_, inputs, 2, &options, &none);
    ASSERT_NE(status, nullptr);
    EXPECT_THAT(kiln_status_message(status), HasSubstr("input 0: "));
    kiln_status_free(status);
  }
  EXPECT_EQ(CountsNow().put, before.put);
  EXPECT_EQ(CountsNow().graphs, before.graphs);
  EXPECT_EQ(CountedRun(x, w_).graphs, 1);
}

TEST_F(SessionGraphs, WithoutTheOptionNothingIsCaptured) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 0));
  kiln_session_mark_step_begin(session_);
  for (int i = 0; i < 3; ++i) {
    Matrix x(static_cast<float>(i));
    EXPECT_EQ(CountedRun(x, w_).graphs, 0);
  }
  EXPECT_EQ(Report().warm_ups, 0);
  EXPECT_TRUE(Notes().empty());
}

TEST_F(SessionGraphs, AResultIsHandedOnWithoutACopy) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  const int32_t weights = 1;
  Take(kiln_callable_static_inputs(callable_, &weights, 1));
  for (int i = 0; i < 4; ++i) {
    kiln_session_mark_step_begin(session_);
    Matrix x(static_cast<float>(i));
    KilnResults* const y = Run(x.data, w_.data);
    ASSERT_NE(y, nullptr);
    void* const data = kiln_results_get(y, 0).data;
    const Counts before = CountsNow();
    KilnResults* const z = Run(data, w_.data);
    ASSERT_NE(z, nullptr);
    const Counts after = CountsNow();
    Expect(kiln_results_get(z, 0), static_cast<float*>(data), w_.data);
    if (i >= 2) {
      EXPECT_EQ(after.put, before.put);
      EXPECT_EQ(after.graphs, before.graphs + 1);
    }
    kiln_results_free(y);
    kiln_results_free(z);
  }
  EXPECT_EQ(Report().recorded_copied_inputs, 1);
}

TEST_F(SessionGraphs, AResultOfAnEarlierStepIsRefusedAndTheNextRunWorks) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  Matrix x(3);
  KilnResults* const old = Run(x.data, w_.data);
  kiln_session_mark_step_begin(session_);
  kiln_results_free(Run(x.data, w_.data));
  KilnResults* none = nullptr;
  KilnStatus* const status =
      TryRun(kiln_results_get(old, 0).data, w_.data, &none);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(kiln_status_code(status), kFailedPrecondition);
  EXPECT_THAT(kiln_status_message(status),
              HasSubstr("overwritten by a subsequent run"));
  kiln_status_free(status);
  kiln_results_free(old);
  CountedRun(x, w_);
}

TEST_F(SessionGraphs, ATracedReplayIsOneEventWithItsKernels) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  const std::string of_a_step = "\"cat\":\"kernel\"";
  const std::string of_a_replay =
      "\"name\":\"kiln_graph_replay\",\"cat\":\"graph\"";
  for (int i = 0; i < 3; ++i) {
    KilnTrace* const trace = kiln_trace_new();
    Matrix x(static_cast<float>(i));
    EXPECT_EQ(CountedRun(x, w_, trace).graphs, i == 0 ? 0 : 1);
    std::string json(kiln_trace_json(trace, nullptr, 0) + 1, '\0');
    kiln_trace_json(trace, json.data(), json.size());
    kiln_trace_free(trace);
    EXPECT_THAT(json, HasSubstr(i == 0 ? of_a_step : of_a_replay));
    EXPECT_THAT(json, Not(HasSubstr(i == 0 ? of_a_replay : of_a_step)));
    if (i > 0) {
      EXPECT_THAT(json, HasSubstr("\"kernels\":[\"kiln_"));
    }
  }
  EXPECT_EQ(Report().warm_ups, 1);
}

TEST_F(SessionGraphs, ResultsOutliveTheSession) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  Matrix x(7);
  for (int i = 0; i < 2; ++i) kiln_results_free(Run(x.data, w_.data));
  KilnResults* const kept = Run(x.data, w_.data);
  kiln_callable_free(std::exchange(callable_, nullptr));
  kiln_session_close(std::exchange(session_, nullptr));
  Expect(kiln_results_get(kept, 0), x.data, w_.data);
  kiln_results_free(kept);
}

TEST_F(SessionGraphs, TheCpuSaysOnceThatItCapturesNothing) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CPU, 1));
  for (int i = 0; i < 3; ++i) {
    Matrix x(static_cast<float>(i));
    CountedRun(x, w_);
  }
  EXPECT_THAT(Notes(), ElementsAre("cpu: its work is not captured"));
  EXPECT_TRUE(Notes().empty());
  EXPECT_EQ(Report().warm_ups, 0);
}

TEST_F(SessionGraphs, AMovingStaticInputIsRecordedAsOftenAsTheOptionsSay) {
  KilnGraphOptions options = {};
  options.struct_size = sizeof(options);
  options.rerecord_limit = 2;
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1, &options));
  const int32_t weights = 1;
  Take(kiln_callable_static_inputs(callable_, &weights, 1));
  Matrix x(1);
  std::vector<Matrix> places(7, Matrix(3));
  for (Matrix& place : places) CountedRun(x, place);
  EXPECT_EQ(Report().recordings, 1 + 2);
  EXPECT_EQ(Report().skips, 1);
  ASSERT_FALSE(Notes().empty());
}

TEST_F(SessionGraphs, MemoryIsToldByPlanAndStep) {
  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  EXPECT_EQ(kiln_session_graph_memory(session_, nullptr, 0), 0u);
  Matrix x(1);
  KilnResults* const held = Run(x.data, w_.data);
  std::string text(kiln_session_graph_memory(session_, nullptr, 0), 'x');
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(kiln_session_graph_memory(session_, text.data(), text.size()),
            text.size());
  EXPECT_EQ(text[0], 'x');  // no room for the 0
  EXPECT_EQ(kiln_session_graph_memory(session_, text.data(), text.size() + 1),
            text.size());
  EXPECT_THAT(text, HasSubstr("allocated, plan 0: "));
  EXPECT_THAT(text, HasSubstr(", step "));
  kiln_results_free(held);
}

TEST_F(SessionGraphs, OptionsThatMeanNothingAreRefused) {
  KilnGraphOptions graphs = {};
  KilnSessionOptions options = {};
  options.struct_size = sizeof(options);
  options.fallback = KILN_LOCAL_ONLY;
  options.worker_program = "/nowhere/kiln-worker";
  options.graphs = 1;
  options.graph_options = &graphs;
  const auto expect = [&](const std::string& message) {
    KilnStatus* const status = kiln_session_open(&options, &session_);
    ASSERT_NE(status, nullptr) << message;
    EXPECT_EQ(kiln_status_message(status), "session options: " + message);
    kiln_status_free(status);
  };
  expect("graph_options: struct_size: found 0, expected " +
         std::to_string(sizeof(graphs)) + ", the size of the struct");
  graphs.struct_size = sizeof(graphs);
  graphs.rerecord_limit = -2;
  expect("rerecord_limit: found -2, expected -1 or more");
  graphs.rerecord_limit = -1;
  graphs.capture_size_count = 3;
  expect("capture_sizes: found NULL, expected 3");
  graphs.capture_size_count = 0;
  graphs.memory_limit_bytes = -1;
  expect("memory_limit_bytes: found -1, expected 0 or more");
}

TEST_F(SessionGraphs, WhatNoCallerCanMeanIsRefused) {
  KilnSessionOptions options = {};
  options.struct_size = sizeof(options);
  options.fallback = KILN_LOCAL_ONLY;
  options.worker_program = "/nowhere/kiln-worker";
  options.graphs = 2;
  KilnStatus* status = kiln_session_open(&options, &session_);
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(kiln_status_message(status),
               "session options: graphs: found 2, expected 0 to 1");
  kiln_status_free(status);

  ASSERT_NO_FATAL_FAILURE(Open(KILN_CUDA, 1));
  const int32_t beyond = 2;
  status = kiln_callable_static_inputs(callable_, &beyond, 1);
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(kiln_status_message(status),
               "static inputs: found 2, expected one of 2 inputs, from 0");
  kiln_status_free(status);
}

}  // namespace
}  // namespace kiln

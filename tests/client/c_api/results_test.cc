#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/c_api/kiln.h"
#include "gtest/gtest.h"

// Who owns the memory of results.

namespace kiln {
namespace {

constexpr int kElements = 8;

// What a lent allocator has given and not got back.
struct Ledger {
  std::map<void*, int64_t> live;
  int given = 0;
};

void* Give(void* context, int64_t bytes, void*) {
  auto* ledger = static_cast<Ledger*>(context);
  void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  ledger->live[memory] = bytes;
  ++ledger->given;
  return memory;
}

void TakeBack(void* context, void* memory, int64_t bytes, void*) {
  auto* ledger = static_cast<Ledger*>(context);
  EXPECT_EQ(ledger->live[memory], bytes);
  ledger->live.erase(memory);
  std::free(memory);
}

void* HaveNone(void*, int64_t, void*) { return nullptr; }

// x + x and x * x, compiled by a worker of the test's own.
class Results : public testing::Test {
 protected:
  void SetUp() override {
    const std::string worker =
        std::filesystem::absolute("compiler/kiln-worker").string();
    KilnSessionOptions options = {};
    options.struct_size = sizeof(options);
    options.fallback = KILN_LOCAL_ONLY;
    options.worker_program = worker.c_str();
    ASSERT_EQ(kiln_session_open(&options, &session_), nullptr);
    const KilnSize size = {kElements, -1};
    const KilnSpec spec = {KILN_FLOAT32, 1, &size, nullptr};
    KilnGraph* graph = kiln_graph_new("twice", KILN_CPU);
    KilnArg x = {};
    x.kind = KILN_ARG_VALUE;
    x.integer = kiln_graph_input(graph, "x", &spec);
    const KilnArg both[] = {x, x};
    for (const char* op : {"aten.add.Tensor", "aten.mul.Tensor"}) {
      kiln_graph_output(graph, kiln_graph_node(graph, op, both, 2, &spec));
    }
    ASSERT_EQ(kiln_compile(session_, graph, &callable_), nullptr);
    kiln_graph_free(graph);
  }

  void TearDown() override {
    kiln_callable_free(callable_);
    kiln_session_close(session_);
  }

  KilnStatus* Run(const KilnAllocator* allocator, KilnResults** results) {
    KilnRunOptions options = {};
    options.struct_size = sizeof(options);
    options.allocator = allocator;
    return RunWith(options, results);
  }

  KilnStatus* RunWith(const KilnRunOptions& options, KilnResults** results) {
    static const int64_t size = kElements;
    static const int64_t stride = 1;
    for (int i = 0; i < kElements; ++i) x_[i] = static_cast<float>(i);
    KilnValue input = {};
    input.kind = KILN_TENSOR;
    input.dtype = KILN_FLOAT32;
    input.rank = 1;
    input.data = x_;
    input.sizes = &size;
    input.strides = &stride;
    return kiln_run_with(callable_, &input, 1, &options, results);
  }

  alignas(64) float x_[kElements] = {};
  KilnSession* session_ = nullptr;
  KilnCallable* callable_ = nullptr;
};

TEST_F(Results, AShareKeepsOneResultAndNotTheOthers) {
  Ledger ledger;
  const KilnAllocator allocator = {&ledger, &Give, &TakeBack};
  KilnResults* results = nullptr;
  ASSERT_EQ(Run(&allocator, &results), nullptr);
  EXPECT_EQ(ledger.given, 2);
  const KilnValue square = kiln_results_get(results, 1);
  const auto* data = static_cast<const float*>(square.data);
  KilnMemory* memory = kiln_results_share(results, 1);
  kiln_results_free(results);

  ASSERT_EQ(ledger.live.size(), 1);
  EXPECT_EQ(ledger.live.begin()->first, data);
  EXPECT_EQ(data[3], 9.0f);
  kiln_memory_free(memory);
  EXPECT_TRUE(ledger.live.empty());
}

TEST_F(Results, WithoutALentAllocatorTheMemoryIsTheLibrarysAndIsSharedAlike) {
  KilnResults* results = nullptr;
  ASSERT_EQ(Run(nullptr, &results), nullptr);
  const auto* sum =
      static_cast<const float*>(kiln_results_get(results, 0).data);
  KilnMemory* memory = kiln_results_share(results, 0);
  ASSERT_NE(memory, nullptr);
  kiln_results_free(results);
  EXPECT_EQ(sum[3], 6.0f);
  kiln_memory_free(memory);
}

TEST_F(Results, AnAllocatorWithoutMemoryIsAnError) {
  const KilnAllocator allocator = {nullptr, &HaveNone, &TakeBack};
  KilnResults* results = nullptr;
  KilnStatus* status = Run(&allocator, &results);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(kiln_status_code(status), 8);  // RESOURCE_EXHAUSTED
  kiln_status_free(status);
  EXPECT_EQ(results, nullptr);
}

// Makes the second result in memory of its own.
struct Own {
  alignas(64) float square[kElements] = {};
  int asked = 0;
};

void* MakeSquare(void* context, int32_t index, const KilnValue* like) {
  auto* own = static_cast<Own*>(context);
  ++own->asked;
  EXPECT_EQ(like->dtype, KILN_FLOAT32);
  EXPECT_EQ(like->rank, 1);
  EXPECT_EQ(like->sizes[0], kElements);
  EXPECT_EQ(like->strides[0], 1);
  return index == 1 ? own->square : nullptr;
}

TEST_F(Results, AResultThatTheCallerMadeIsWrittenThereAndStaysHis) {
  Own own;
  KilnRunOptions options = {};
  options.struct_size = sizeof(options);
  options.make_result = &MakeSquare;
  options.result_context = &own;
  KilnResults* results = nullptr;
  ASSERT_EQ(RunWith(options, &results), nullptr);
  EXPECT_EQ(own.asked, 2);
  EXPECT_EQ(kiln_results_get(results, 1).data, own.square);
  EXPECT_EQ(kiln_results_share(results, 1), nullptr);
  const auto* sum =
      static_cast<const float*>(kiln_results_get(results, 0).data);
  EXPECT_EQ(sum[3], 6.0f);
  kiln_results_free(results);
  EXPECT_EQ(own.square[3], 9.0f);
}

TEST_F(Results, ACallableTellsHowItWasMade) {
  KilnReport report = {};
  report.struct_size = sizeof(report);
  ASSERT_EQ(kiln_callable_report(callable_, &report), nullptr);
  EXPECT_EQ(report.artifacts, 1);
  EXPECT_EQ(report.by_local_worker, 1);
  EXPECT_EQ(report.served_from, KILN_SERVED_FROM_COMPILE);
  EXPECT_EQ(report.units_built, 1);
  EXPECT_EQ(report.daemon_lost, 0);  // none was asked

  // Of a program that was built before the last member was there.
  KilnReport older = {};
  older.struct_size = offsetof(KilnReport, daemon_lost);
  older.daemon_lost = 77;
  ASSERT_EQ(kiln_callable_report(callable_, &older), nullptr);
  EXPECT_EQ(older.units_built, 1);
  EXPECT_EQ(older.daemon_lost, 77);

  char text[4096];
  const size_t length =
      kiln_callable_text(callable_, KILN_TEXT_COUNTERS, text, sizeof(text));
  EXPECT_EQ(std::string(text).size(), length);
  EXPECT_NE(std::string(text).find("generated_kernel_count 1\n"),
            std::string::npos);
  EXPECT_NE(std::string(text).find("launch_count 1\n"), std::string::npos);
  // A buffer that is too short is filled, and the length told all the same.
  EXPECT_EQ(kiln_callable_text(callable_, KILN_TEXT_COUNTERS, text, 10),
            length);
  EXPECT_EQ(std::string(text).size(), 9);
  kiln_callable_text(callable_, KILN_TEXT_PLAN, text, sizeof(text));
  EXPECT_EQ(std::string(text).substr(0, 11), "launch_plan");
  kiln_callable_text(callable_, KILN_TEXT_KERNELS, text, sizeof(text));
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  ASSERT_EQ(words.size(), 3u) << text;
  EXPECT_EQ(words[0].find(words[1] + "_"), 0u) << text;
  EXPECT_EQ(words[2], "0");
  ASSERT_EQ(kiln_callable_text(callable_, KILN_TEXT_KEY, text, sizeof(text)),
            64);
  EXPECT_EQ(std::string(text).find_first_not_of("0123456789abcdef"),
            std::string::npos);
}

TEST_F(Results, OptionsThatAreNoneAreRefused) {
  KilnGraph* graph = kiln_graph_new("none", KILN_CPU);
  KilnCallable* callable = nullptr;
  KilnStatus* status =
      kiln_compile_with(session_, graph, "\xff\xff", 2, &callable);
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(kiln_status_reason(status), "BAD_OPTION");
  kiln_status_free(status);
  kiln_graph_free(graph);
}

}  // namespace
}  // namespace kiln

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "client/c_api/kiln.h"
#include "gtest/gtest.h"
#include "tests/client/c_api/local_session.h"

// What no caller can mean is refused by name before any work; nobody's memory
// is looked at that was not given.

namespace kiln {
namespace {

constexpr int kInvalidArgument = 3;  // gRPC's

// Takes the status; says why it is another one.
void ExpectRefused(KilnStatus* status, const std::string& message) {
  ASSERT_NE(status, nullptr) << "expected: " << message;
  EXPECT_EQ(kiln_status_code(status), kInvalidArgument);
  EXPECT_EQ(kiln_status_message(status), message);
  kiln_status_free(status);
}

KilnSessionOptions LocalOptions() {
  KilnSessionOptions options = {};
  options.struct_size = sizeof(options);
  options.fallback = KILN_LOCAL_ONLY;
  options.worker_program = "/nowhere/kiln-worker";
  return options;
}

void ExpectOptionsRefused(const KilnSessionOptions& options,
                          const std::string& message) {
  KilnSession* session = nullptr;
  ExpectRefused(kiln_session_open(&options, &session),
                "session options: " + message);
  EXPECT_EQ(session, nullptr);
}

TEST(CSession, OptionsThatMeanNothingAreRefusedByName) {
  KilnSessionOptions options = LocalOptions();
  options.fallback = static_cast<KilnFallback>(77);
  ExpectOptionsRefused(options, "fallback: found 77, expected 0 to 2");
  options = LocalOptions();
  options.device = static_cast<KilnDevice>(7);
  ExpectOptionsRefused(options, "device: found 7, expected 0 to 1");
  options = LocalOptions();
  options.ordinal = -1;
  ExpectOptionsRefused(options, "ordinal: found -1, expected 0 or more");
  options = LocalOptions();
  options.threads = -3;
  ExpectOptionsRefused(options, "threads: found -3, expected 0 to 1024");
  options.threads = 100000;
  ExpectOptionsRefused(options, "threads: found 100000, expected 0 to 1024");
  options = LocalOptions();
  options.compile_deadline_ms = -5;
  ExpectOptionsRefused(options,
                       "compile_deadline_ms: found -5, expected 0 or more");
  options = LocalOptions();
  options.worker_program = nullptr;
  ExpectOptionsRefused(options, "worker_program: must not be NULL");
  options = LocalOptions();
  options.fallback = KILN_FALLBACK_ERROR;
  ExpectOptionsRefused(options,
                       "socket: found NULL, and neither KILN_ADDR nor "
                       "kiln.toml names a daemon");
  options = LocalOptions();
  options.public_key_count = 2;
  ExpectOptionsRefused(options, "public_keys: found NULL, expected 2");
  options = LocalOptions();
  options.socket = "/nowhere/kilnd.sock";
  options.tcp = "localhost:1";
  ExpectOptionsRefused(options,
                       "socket and tcp: both are set; set one of them");
  options.struct_size = 0;
  ExpectOptionsRefused(options,
                       "options: struct_size: found 0, expected " +
                           std::to_string(offsetof(KilnSessionOptions, tcp)) +
                           ", the size of the struct");
}

TEST(CSession, NullIsRefusedWhereSomethingIsDue) {
  const KilnSessionOptions options = LocalOptions();
  KilnSession* session = nullptr;
  ExpectRefused(kiln_session_open(nullptr, &session),
                "session options: options: must not be NULL");
  ExpectRefused(kiln_session_open(&options, nullptr),
                "session: pointer for the result: must not be NULL");
  KilnGraph* graph = nullptr;
  ExpectRefused(kiln_graph_parse(nullptr, 5, &graph),
                "graph: bytes: must not be NULL");
  ExpectRefused(kiln_graph_parse("", 0, nullptr),
                "graph: pointer for the result: must not be NULL");
  KilnCallable* callable = nullptr;
  ExpectRefused(kiln_compile(nullptr, nullptr, &callable),
                "session: must not be NULL");
  KilnResults* results = nullptr;
  ExpectRefused(kiln_run(nullptr, nullptr, 0, 0, nullptr, &results),
                "callable: must not be NULL");
}

// One graph with one symbol N and one input x : f32[N, 4], and a worker that
// would compile it.
class CGraph : public LocalSession {
 protected:
  CGraph() {
    symbol_ = kiln_graph_symbol(graph_, "N", 3);
    const KilnSize sizes[] = {{1, symbol_}, {4, -1}};
    const KilnSpec spec = {KILN_FLOAT32, 2, sizes, nullptr};
    x_.kind = KILN_ARG_VALUE;
    x_.integer = kiln_graph_input(graph_, "x", &spec);
  }
  ~CGraph() override { kiln_graph_free(graph_); }

  // What compiling the graph says, which is its first mistake.
  void ExpectMistake(const std::string& message) {
    KilnCallable* callable = nullptr;
    KilnStatus* status = kiln_compile(session(), graph_, &callable);
    if (status != nullptr) {
      EXPECT_STREQ(kiln_status_reason(status), "MALFORMED_GRAPH");
    }
    ExpectRefused(status, message);
    EXPECT_EQ(callable, nullptr);
  }

  // A node with `arg` behind x.
  void AddNode(const KilnArg& arg) {
    const KilnArg args[] = {x_, arg};
    const KilnSpec spec = {KILN_FLOAT32, 0, nullptr, nullptr};
    kiln_graph_node(graph_, "aten.op.default", args, 2, &spec);
  }

  KilnGraph* graph_ = kiln_graph_new("g", KILN_CPU);
  int32_t symbol_ = 0;
  KilnArg x_ = {};
};

TEST_F(CGraph, ADeviceThatIsNone) {
  kiln_graph_free(graph_);
  graph_ = kiln_graph_new("g", static_cast<KilnDevice>(9));
  ExpectMistake("graph: device: found 9, expected 0 to 1");
}

TEST_F(CGraph, AHintBelowZero) {
  kiln_graph_symbol(graph_, "M", -2);
  ExpectMistake("symbol M: hint: found -2, expected 0 or more");
}

TEST_F(CGraph, ASymbolThatItHasNot) {
  const KilnSize size = {1, -7};
  const KilnSpec spec = {KILN_FLOAT32, 1, &size, nullptr};
  kiln_graph_input(graph_, "y", &spec);
  ExpectMistake("input y: symbol: found -7, expected -1 to 0");
}

TEST_F(CGraph, ARankBelowZero) {
  const KilnSpec spec = {KILN_FLOAT32, -1, nullptr, nullptr};
  kiln_graph_input(graph_, "y", &spec);
  ExpectMistake("input y: rank: found -1, expected 0 to 64");
}

// Refused at once: nothing of its entries is read, which are not there.
TEST_F(CGraph, ARankBeyondTheLimit) {
  const KilnSize size = {1, -1};
  const KilnSpec spec = {KILN_FLOAT32, 100000, &size, &size};
  kiln_graph_input(graph_, "y", &spec);
  ExpectMistake("input y: rank: found 100000, expected 0 to 64");
}

TEST_F(CGraph, ASpecWithoutSizesOrWithoutItself) {
  const KilnSpec spec = {KILN_FLOAT32, 2, nullptr, nullptr};
  kiln_graph_input(graph_, "y", &spec);
  ExpectMistake("input y: sizes: found NULL, expected 2");
}

TEST_F(CGraph, ANodeWithoutASpec) {
  kiln_graph_node(graph_, "aten.relu.default", &x_, 1, nullptr);
  ExpectMistake("node 0, aten.relu.default: spec: must not be NULL");
}

TEST_F(CGraph, ADTypeThatIsNone) {
  const KilnSize size = {1, -1};
  const KilnSpec spec = {static_cast<KilnDType>(11), 1, &size, nullptr};
  kiln_graph_input(graph_, "y", &spec);
  ExpectMistake("input y: dtype: found 11, expected 1 to 10");
}

TEST_F(CGraph, SizesWhoseProductNoNumberHolds) {
  const KilnSize size = {std::numeric_limits<int64_t>::max() / 2, -1};
  const KilnSize sizes[] = {size, size, size};
  const KilnSpec spec = {KILN_FLOAT32, 3, sizes, nullptr};
  kiln_graph_input(graph_, "y", &spec);
  ExpectMistake(
      "input y: elements: found 4611686018427387903 times "
      "4611686018427387903, expected at most 1099511627775");
}

TEST_F(CGraph, AnInputAfterANode) {
  KilnArg one = {};
  one.kind = KILN_ARG_INTEGER;
  AddNode(one);
  const KilnSpec spec = {KILN_FLOAT32, 0, nullptr, nullptr};
  kiln_graph_input(graph_, "y", &spec);
  ExpectMistake("input y: nodes before it: found 1, expected none");
}

TEST_F(CGraph, AnOutputThatItHasNot) {
  kiln_graph_output(graph_, 5);
  ExpectMistake("output 0: value: found 5, expected 0 to 0");
}

TEST_F(CGraph, ArgumentsThatAreCountedAndNotThere) {
  const KilnSpec spec = {KILN_FLOAT32, 0, nullptr, nullptr};
  kiln_graph_node(graph_, "aten.relu.default", nullptr, 1, &spec);
  ExpectMistake("node 0, aten.relu.default: arguments: found NULL, expected 1");
}

struct BadArg {
  KilnArg arg;
  std::string message;
};

TEST_F(CGraph, ArgumentsThatMeanNothing) {
  static const int64_t values[] = {0, -1, 8};
  static const KilnSize sizes[] = {{1, 3}};
  std::vector<BadArg> table;
  const auto add = [&table](int kind, const std::string& message) -> KilnArg& {
    table.push_back({KilnArg{}, message});
    table.back().arg.kind = static_cast<KilnArgKind>(kind);
    return table.back().arg;
  };
  table.reserve(20);
  add(11, "kind: found 11, expected 0 to 10");
  add(-1, "kind: found -1, expected 0 to 10");
  add(KILN_ARG_VALUE, "value: found 9, expected 0 to 0").integer = 9;
  add(KILN_ARG_VALUE, "value: found -1, expected 0 to 0").integer = -1;
  add(KILN_ARG_BOOL, "bool: found 2, expected 0 to 1").integer = 2;
  add(KILN_ARG_SIZE, "symbol: found 4, expected -1 to 0").symbol = 4;
  add(KILN_ARG_DTYPE, "dtype: found 0, expected 1 to 10");
  add(KILN_ARG_STRING, "string: must not be NULL");
  for (const int kind : {KILN_ARG_INTEGERS, KILN_ARG_VALUES}) {
    add(kind, "integers: found NULL, expected 5").count = 5;
    add(kind, "number of integers: found -1, expected 0 or more").count = -1;
  }
  add(KILN_ARG_SIZES, "sizes: found NULL, expected 2").count = 2;
  KilnArg& listed = add(KILN_ARG_VALUES, "value: found 8, expected 0 to 0");
  listed.integers = values;
  listed.count = 3;
  KilnArg& sized = add(KILN_ARG_SIZES, "symbol: found 3, expected -1 to 0");
  sized.sizes = sizes;
  sized.count = 1;
  KilnGraph* const kept = graph_;
  for (const BadArg& row : table) {
    graph_ = kiln_graph_new("g", KILN_CPU);
    kiln_graph_symbol(graph_, "N", 3);
    const KilnSpec spec = {KILN_FLOAT32, 0, nullptr, nullptr};
    kiln_graph_input(graph_, "x", &spec);
    AddNode(row.arg);
    ExpectMistake("node 0, aten.op.default: argument 1: " + row.message);
    kiln_graph_free(graph_);
  }
  graph_ = kept;
}

// A callable of relu(x) for x : f32[N, 4].
class CRun : public CGraph {
 protected:
  void SetUp() override {
    const KilnSize sizes[] = {{1, symbol_}, {4, -1}};
    const KilnSpec spec = {KILN_FLOAT32, 2, sizes, nullptr};
    kiln_graph_output(
        graph_, kiln_graph_node(graph_, "aten.relu.default", &x_, 1, &spec));
    ASSERT_EQ(kiln_compile(session(), graph_, &callable_), nullptr);
  }
  void TearDown() override { kiln_callable_free(callable_); }

  void ExpectInputRefused(const KilnValue& input, const std::string& message) {
    KilnResults* results = nullptr;
    ExpectRefused(kiln_run(callable_, &input, 1, 0, nullptr, &results),
                  message);
    EXPECT_EQ(results, nullptr);
  }

  float data_[12] = {};
  const int64_t sizes_[2] = {3, 4};
  const int64_t strides_[2] = {4, 1};
  const KilnValue sound_ = {KILN_TENSOR, KILN_FLOAT32, 2, data_,
                            sizes_,      strides_,     0};
  KilnCallable* callable_ = nullptr;
};

TEST_F(CRun, ValuesThatMeanNothingAreRefusedByName) {
  KilnValue input = sound_;
  input.kind = static_cast<KilnValueKind>(5);
  ExpectInputRefused(input, "input 0: kind: found 5, expected 1 to 2");
  input = sound_;
  input.kind = KILN_NOTHING;
  ExpectInputRefused(input, "input 0: kind: found 0, expected 1 to 2");
  input = sound_;
  input.dtype = static_cast<KilnDType>(0);
  ExpectInputRefused(input, "input 0: dtype: found 0, expected 1 to 10");
  input = sound_;
  input.rank = -1;
  ExpectInputRefused(input, "input 0: rank: found -1, expected 0 to 64");
  input.rank = 100000;
  ExpectInputRefused(input, "input 0: rank: found 100000, expected 0 to 64");
  input = sound_;
  input.sizes = nullptr;
  ExpectInputRefused(input, "input 0: sizes: found NULL, expected 2");
  input = sound_;
  input.strides = nullptr;
  ExpectInputRefused(input, "input 0: strides: found NULL, expected 2");
  const int64_t negative[] = {-3, 4};
  input = sound_;
  input.sizes = negative;
  ExpectInputRefused(input, "input 0: size: found -3, expected 0 or more");
}

TEST_F(CRun, InputsThatAreCountedAndNotThereOrTooMany) {
  KilnResults* results = nullptr;
  ExpectRefused(kiln_run(callable_, nullptr, 1, 0, nullptr, &results),
                "inputs: found NULL, expected 1");
  ExpectRefused(kiln_run(callable_, &sound_, -1, 0, nullptr, &results),
                "number of inputs: found -1, expected 0 or more");
  ExpectRefused(kiln_run(callable_, &sound_, 2000000000, 0, nullptr, &results),
                "number of inputs: found 2000000000, expected 1 to 1");
  ExpectRefused(kiln_run(callable_, &sound_, 1, 0, nullptr, nullptr),
                "results: pointer for the results: must not be NULL");
  EXPECT_EQ(results, nullptr);
}

TEST_F(CRun, BeyondTheLastResultThereIsNothing) {
  KilnResults* results = nullptr;
  ASSERT_EQ(kiln_run(callable_, &sound_, 1, 0, nullptr, &results), nullptr);
  EXPECT_EQ(kiln_results_get(results, 0).kind, KILN_TENSOR);
  for (const int32_t index : {-1, 1, 1 << 30}) {
    EXPECT_EQ(kiln_results_get(results, index).kind, KILN_NOTHING);
    EXPECT_EQ(kiln_results_share(results, index), nullptr);
  }
  kiln_results_free(results);
}

}  // namespace
}  // namespace kiln

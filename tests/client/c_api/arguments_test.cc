#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "client/c_api/kiln.h"
#include "gtest/gtest.h"
#include "tests/client/c_api/local_session.h"

// The kinds of arguments that the C ABI has, through a compile to a result.

namespace kiln {
namespace {

constexpr int kColumns = 4;
constexpr int kRows = 3;

// x : f32[N, 4], with 0, 1, 2, ... in it.
class CArguments : public LocalSession {
 protected:
  CArguments() {
    symbol_ = kiln_graph_symbol(graph_, "N", kRows);
    const KilnSize sizes[] = {{1, symbol_}, {kColumns, -1}};
    const KilnSpec spec = {KILN_FLOAT32, 2, sizes, nullptr};
    x_ = Value(kiln_graph_input(graph_, "x", &spec));
    for (int i = 0; i < kRows * kColumns; ++i) data_[i] = static_cast<float>(i);
  }
  ~CArguments() override {
    kiln_results_free(results_);
    kiln_callable_free(callable_);
    kiln_graph_free(graph_);
  }

  static KilnArg Value(uint32_t number) {
    KilnArg arg = {};
    arg.kind = KILN_ARG_VALUE;
    arg.integer = number;
    return arg;
  }

  // The only result of the graph, in order of its elements, when it is
  // f32[sizes...] without gaps.
  std::vector<float> Run(std::vector<KilnValue> further,
                         const std::vector<int64_t>& sizes) {
    KilnStatus* status = kiln_compile(session(), graph_, &callable_);
    if (status != nullptr) ADD_FAILURE() << kiln_status_message(status);
    if (status != nullptr) return {};
    static const int64_t in[] = {kRows, kColumns};
    static const int64_t strides[] = {kColumns, 1};
    further.insert(further.begin(),
                   {KILN_TENSOR, KILN_FLOAT32, 2, data_, in, strides, 0});
    status =
        kiln_run(callable_, further.data(),
                 static_cast<int32_t>(further.size()), 0, nullptr, &results_);
    if (status != nullptr) ADD_FAILURE() << kiln_status_message(status);
    if (status != nullptr) return {};
    const KilnValue y = kiln_results_get(results_, 0);
    EXPECT_EQ(std::vector<int64_t>(y.sizes, y.sizes + y.rank), sizes);
    int64_t elements = 1;
    for (const int64_t size : sizes) elements *= size;
    const auto* first = static_cast<const float*>(y.data);
    return std::vector<float>(first, first + elements);
  }

  KilnGraph* graph_ = kiln_graph_new("arguments", KILN_CPU);
  int32_t symbol_ = 0;
  KilnArg x_ = {};
  float data_[kRows * kColumns] = {};
  KilnCallable* callable_ = nullptr;
  KilnResults* results_ = nullptr;
};

TEST_F(CArguments, AListOfValuesIsConcatenated) {
  const int64_t twice[] = {x_.integer, x_.integer};
  KilnArg args[2] = {};
  args[0].kind = KILN_ARG_VALUES;
  args[0].integers = twice;
  args[0].count = 2;
  args[1].kind = KILN_ARG_INTEGER;
  args[1].integer = 1;
  const KilnSize sizes[] = {{1, symbol_}, {2 * kColumns, -1}};
  const KilnSpec spec = {KILN_FLOAT32, 2, sizes, nullptr};
  kiln_graph_output(
      graph_, kiln_graph_node(graph_, "aten.cat.default", args, 2, &spec));
  const std::vector<float> y = Run({}, {kRows, 2 * kColumns});
  ASSERT_EQ(y.size(), 2 * kRows * kColumns);
  EXPECT_EQ(y[2 * kColumns], data_[kColumns]);  // the second row
  EXPECT_EQ(y[3 * kColumns + 1], data_[kColumns + 1]);
}

// x[:, i]: the first index is none.
TEST_F(CArguments, AListOfValuesMayHoldNone) {
  const KilnSize two = {2, -1};
  const KilnSpec chosen = {KILN_INT64, 1, &two, nullptr};
  const int64_t list[] = {-1, kiln_graph_input(graph_, "i", &chosen)};
  KilnArg args[2] = {x_, {}};
  args[1].kind = KILN_ARG_VALUES;
  args[1].integers = list;
  args[1].count = 2;
  const KilnSize sizes[] = {{1, symbol_}, two};
  const KilnSpec spec = {KILN_FLOAT32, 2, sizes, nullptr};
  kiln_graph_output(
      graph_, kiln_graph_node(graph_, "aten.index.Tensor", args, 2, &spec));
  int64_t columns[] = {3, 1};
  const int64_t size = 2;
  const int64_t stride = 1;
  const std::vector<float> y = Run(
      {{KILN_TENSOR, KILN_INT64, 1, columns, &size, &stride, 0}}, {kRows, 2});
  EXPECT_EQ(y, std::vector<float>({3, 1, 7, 5, 11, 9}));
}

TEST_F(CArguments, AListOfSizesMayHoldSymbols) {
  const KilnSize flat[] = {{2 * 1, symbol_}, {kColumns / 2, -1}};
  KilnArg args[2] = {x_, {}};
  args[1].kind = KILN_ARG_SIZES;
  args[1].sizes = flat;
  args[1].count = 2;
  const KilnSpec spec = {KILN_FLOAT32, 2, flat, nullptr};
  const KilnArg viewed =
      Value(kiln_graph_node(graph_, "aten.view.default", args, 2, &spec));
  kiln_graph_output(
      graph_, kiln_graph_node(graph_, "aten.neg.default", &viewed, 1, &spec));
  const std::vector<float> y = Run({}, {2 * kRows, kColumns / 2});
  ASSERT_EQ(y.size(), kRows * kColumns);
  EXPECT_EQ(y[5], -data_[5]);
}

// gelu(x, approximate="tanh"), whose values are not those of "none".
TEST_F(CArguments, AStringIsGivenByName) {
  KilnArg args[2] = {x_, {}};
  args[1].kind = KILN_ARG_STRING;
  args[1].string = "tanh";
  args[1].name = "approximate";
  const KilnSize sizes[] = {{1, symbol_}, {kColumns, -1}};
  const KilnSpec spec = {KILN_FLOAT32, 2, sizes, nullptr};
  kiln_graph_output(
      graph_, kiln_graph_node(graph_, "aten.gelu.default", args, 2, &spec));
  const std::vector<float> y = Run({}, {kRows, kColumns});
  ASSERT_EQ(y.size(), kRows * kColumns);
  // Torch: gelu(1) is 0.8413447 by erf and 0.8411920 by tanh.
  EXPECT_NEAR(y[1], 0.8411920, 2e-6);  // 16 units of the last place at 1
  EXPECT_EQ(y[0], 0);
}

TEST_F(CArguments, AGraphThatWasParsedGoesOn) {
  // Field 3 of a Graph is an Input, whose field 2 is a TensorMeta: f32[], CPU.
  const std::string bytes = std::string("\x1a\x08\x12\x06\x08\x09\x22\x00", 8) +
                            std::string("\x28\x01", 2);
  kiln_graph_free(graph_);
  ASSERT_EQ(kiln_graph_parse(bytes.data(), bytes.size(), &graph_), nullptr);
  const KilnArg first = Value(0);
  const KilnSpec scalar = {KILN_FLOAT32, 0, nullptr, nullptr};
  const uint32_t y =
      kiln_graph_node(graph_, "aten.relu.default", &first, 1, &scalar);
  EXPECT_EQ(y, 1);
  kiln_graph_output(graph_, y);
  KilnStatus* status = kiln_compile(session(), graph_, &callable_);
  EXPECT_EQ(status, nullptr) << kiln_status_message(status);
}

}  // namespace
}  // namespace kiln

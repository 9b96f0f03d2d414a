// Guards through the whole road: the real client, daemon and compiler. Each
// test says how many plans were made, and every result is computed here too.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "client/graph_builder.h"
#include "client/session.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

std::string RealWorker() {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/compiler/kiln-worker");
}

class GuardsTest : public testing::Test {
 protected:
  GuardsTest()
      : daemon_([](Config& config) { config.worker_program = RealWorker(); }) {}

  std::shared_ptr<Session> Open() {
    SessionOptions options;
    options.daemon.socket = daemon_.config().socket;
    options.daemon.answer_timeout = absl::Seconds(60);
    auto session = Session::Open(options);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *session : nullptr;
  }

  std::shared_ptr<Callable> Compile(const wire::Graph& graph) {
    const auto session = Open();
    auto callable = session->Compile(graph);
    EXPECT_TRUE(callable.ok()) << callable.status();
    return callable.ok() ? *callable : nullptr;
  }

  int64_t plans() const { return daemon_.count(Count::kPlans); }

  TestDaemon daemon_;
};

// The inputs of one call.
class Call {
 public:
  // Small integers of both signs: sums of a few are exact.
  Call& Tensor(std::vector<int64_t> sizes) {
    kiln::Tensor tensor;
    tensor.sizes.assign(sizes.begin(), sizes.end());
    tensor.strides = ContiguousStrides(tensor.sizes);
    auto elements =
        std::make_shared<std::vector<float>>(NumElements(tensor.sizes));
    for (size_t i = 0; i < elements->size(); ++i) {
      (*elements)[i] = static_cast<float>((i * 7 + 3) % 11) - 5;
    }
    tensor.data = elements->data();
    tensor.owner = std::move(elements);
    inputs_.push_back(tensor);
    return *this;
  }

  // Element `i` of input `input`, as it lies in memory.
  float At(size_t input, int64_t i) const {
    return static_cast<const float*>(
        std::get<kiln::Tensor>(inputs_[input]).data)[i];
  }

  // Runs and compares the one result, bit by bit: nothing here rounds.
  void Expect(Callable& callable, const std::vector<int64_t>& sizes,
              absl::FunctionRef<float(int64_t)> due) const {
    const auto got = callable.Run(inputs_);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->size(), 1u);
    const auto& tensor = std::get<kiln::Tensor>((*got)[0]);
    ASSERT_EQ(std::vector<int64_t>(tensor.sizes.begin(), tensor.sizes.end()),
              sizes);
    const auto* elements = static_cast<const float*>(tensor.data);
    for (int64_t i = 0; i < NumElements(tensor.sizes); ++i) {
      ASSERT_EQ(elements[i], due(i)) << "element " << i;
    }
  }

 private:
  std::vector<InputValue> inputs_;
};

// relu(x[rows, columns][:, 0:rows]): as many columns as the smaller of the two.
struct Slice {
  int64_t rows, columns;

  wire::Graph graph() const {
    GraphBuilder g("slice");
    const SizeExpr s0 = g.Symbol("s0", {.hint = rows});
    const SizeExpr s1 = g.Symbol("s1", {.hint = columns});
    const TensorSpec result = {
        DType::kFloat32, {s0, rows <= columns ? s0 : s1}, {s1, 1}};
    const Value x = g.Input("x", {DType::kFloat32, {s0, s1}});
    const Value part = g.Node("aten.slice.Tensor", {x, 1, 0, s0}, result);
    g.Output(
        g.Node("aten.relu.default", {part}, {DType::kFloat32, result.sizes}));
    return *g.Build();
  }
  void ExpectRight(Callable& callable) const {
    const Call call = Call().Tensor({rows, columns});
    const int64_t taken = std::min(rows, columns);
    call.Expect(callable, {rows, taken}, [&](int64_t i) {
      return std::max(0.0f, call.At(0, i / taken * columns + i % taken));
    });
  }
};

// x[a] + y[b]: equal, or one of them 1.
struct Broadcast {
  int64_t a, b;

  wire::Graph graph() const {
    GraphBuilder g("broadcast");
    const SizeExpr s0 = g.Symbol("s0", {.hint = a});
    const SizeExpr s1 = g.Symbol("s1", {.hint = b});
    const Value x = g.Input("x", {DType::kFloat32, {s0}});
    const Value y = g.Input("y", {DType::kFloat32, {s1}});
    g.Output(g.Node("aten.add.Tensor", {x, y},
                    {DType::kFloat32, {a == 1 ? s1 : s0}}));
    return *g.Build();
  }
  void ExpectRight(Callable& callable) const {
    const Call call = Call().Tensor({a}).Tensor({b});
    call.Expect(callable, {std::max(a, b)}, [&](int64_t i) {
      return call.At(0, a == 1 ? 0 : i) + call.At(1, b == 1 ? 0 : i);
    });
  }
};

// The greatest of each image, by a window as large as the image: such a size
// has to be a number.
struct Pool {
  int64_t size;

  wire::Graph graph() const {
    GraphBuilder g("pool");
    const SizeExpr s0 = g.Symbol("s0", {.hint = size});
    const Value x = g.Input("x", {DType::kFloat32, {2, 3, s0, 2}});
    const std::vector<Value> pooled = g.Nodes(
        "aten.max_pool2d_with_indices.default", {x, Arg::List({s0, 2})},
        {{DType::kFloat32, {2, 3, 1, 1}}, {DType::kInt64, {2, 3, 1, 1}}});
    g.Output(pooled[0]);
    return *g.Build();
  }
  void ExpectRight(Callable& callable) const {
    const Call call = Call().Tensor({2, 3, size, 2});
    call.Expect(callable, {2, 3, 1, 1}, [&](int64_t image) {
      float most = call.At(0, image * size * 2);
      for (int64_t i = 1; i < size * 2; ++i) {
        most = std::max(most, call.At(0, image * size * 2 + i));
      }
      return most;
    });
  }
};

// cat(x[a], y[b]) + z[c]: c is a + b, though no symbol says so.
struct Cat {
  int64_t a, b, c;

  wire::Graph graph() const {
    GraphBuilder g("cat");
    const SizeExpr s0 = g.Symbol("s0", {.hint = a});
    const SizeExpr s1 = g.Symbol("s1", {.hint = b});
    const SizeExpr s2 = g.Symbol("s2", {.hint = c});
    const Value x = g.Input("x", {DType::kFloat32, {s0}});
    const Value y = g.Input("y", {DType::kFloat32, {s1}});
    const Value z = g.Input("z", {DType::kFloat32, {s2}});
    const Value both = g.Node("aten.cat.default", {Arg::List({x, y})},
                              {DType::kFloat32, {s0 + s1}});
    g.Output(g.Node("aten.add.Tensor", {both, z}, {DType::kFloat32, {s2}}));
    return *g.Build();
  }
  void ExpectRight(Callable& callable) const {
    const Call call = Call().Tensor({a}).Tensor({b}).Tensor({c});
    call.Expect(callable, {c}, [&](int64_t i) {
      return (i < a ? call.At(0, i) : call.At(1, i - a)) + call.At(2, i);
    });
  }
};

TEST_F(GuardsTest, SizesThatBreakTheirClassesGuardsTakeOneMorePlan) {
  // 6 and 5 are both of class 8, and 8 <= 8.
  const Slice slice = {6, 5};
  const auto callable = Compile(slice.graph());
  ASSERT_NE(callable, nullptr);
  EXPECT_EQ(plans(), 2);
  slice.ExpectRight(*callable);
  EXPECT_EQ(callable->compiles(), 1);
}

TEST_F(GuardsTest, SizesThatFitTheirClassesTakeOnePlan) {
  const Slice slice = {16, 5};
  const auto callable = Compile(slice.graph());
  ASSERT_NE(callable, nullptr);
  EXPECT_EQ(plans(), 1);
  slice.ExpectRight(*callable);
}

TEST_F(GuardsTest, ACallThatBreaksAGuardGetsAnArtifactOfTheSameKey) {
  const Slice first = {6, 5};
  const auto callable = Compile(first.graph());
  ASSERT_NE(callable, nullptr);
  const Slice fits = {8, 7}, breaks = {5, 7};
  fits.ExpectRight(*callable);
  EXPECT_EQ(callable->compiles(), 1);
  // Its classes are those of the first, whose plan by classes is in the cache.
  breaks.ExpectRight(*callable);
  EXPECT_EQ(callable->compiles(), 2);
  EXPECT_EQ(plans(), 2);
  first.ExpectRight(*callable);
  EXPECT_EQ(callable->compiles(), 2);
}

TEST_F(GuardsTest, TwoClientsOfOneKeyAreBothServed) {
  const Pool pools[] = {{13}, {16}};
  std::vector<std::thread> clients;
  for (const Pool& pool : pools) {
    clients.emplace_back([this, &pool] {
      const auto callable = Compile(pool.graph());
      ASSERT_NE(callable, nullptr);
      pool.ExpectRight(*callable);
      EXPECT_EQ(callable->compiles(), 1);
    });
  }
  for (std::thread& client : clients) client.join();
  // By classes, which fits the second, and by the first one's sizes.
  EXPECT_EQ(plans(), 2);
}

TEST_F(GuardsTest, ABroadcastIsDecidedAnewForSizesThatDecideOtherwise) {
  const Broadcast one = {1, 5};
  const auto callable = Compile(one.graph());
  ASSERT_NE(callable, nullptr);
  one.ExpectRight(*callable);
  const Broadcast both_one = {1, 1};
  both_one.ExpectRight(*callable);
  EXPECT_EQ(callable->compiles(), 1);
  EXPECT_EQ(plans(), 1);

  const Broadcast equal = {7, 7};
  equal.ExpectRight(*callable);
  const Broadcast also_equal = {300, 300};
  also_equal.ExpectRight(*callable);
  EXPECT_EQ(callable->compiles(), 2);
  EXPECT_EQ(plans(), 2);
}

TEST_F(GuardsTest, ANumberThatASizeMustBeIsTheCallersOwn) {
  // Of 13 and 16, which share a class, 16 is what the class stands for.
  const struct {
    Pool pool;
    int64_t plans;
  } rows[] = {{{13}, 2}, {{16}, 2}, {{17}, 4}};
  for (const auto& row : rows) {
    const auto callable = Compile(row.pool.graph());
    ASSERT_NE(callable, nullptr);
    row.pool.ExpectRight(*callable);
    EXPECT_EQ(callable->compiles(), 1) << row.pool.size;
    EXPECT_EQ(plans(), row.plans) << row.pool.size;
  }
}

TEST_F(GuardsTest, ACallableIsSpecializedOnceForEachSizeThatNeedsIt) {
  const Pool first = {13};
  const auto callable = Compile(first.graph());
  ASSERT_NE(callable, nullptr);
  for (const int64_t size : {13, 16, 17, 13, 16, 17}) {
    const Pool pool = {size};
    pool.ExpectRight(*callable);
  }
  EXPECT_EQ(callable->compiles(), 3);
}

TEST_F(GuardsTest, AGraphThatOnlyItsClassesContradictIsCompiled) {
  // 4 + 5 is 9; of their classes, 4 + 8 is not 16.
  const Cat cat = {4, 5, 9};
  const auto callable = Compile(cat.graph());
  ASSERT_NE(callable, nullptr);
  cat.ExpectRight(*callable);
  EXPECT_EQ(plans(), 1);  // the refusal by classes was none
  const auto session = Open();
  EXPECT_EQ(ReasonOf(session->Compile(Cat{4, 5, 10}.graph()).status()),
            ErrorReason::kMalformedGraph);
}

TEST_F(GuardsTest, EqualSizesAskedAgainGiveEqualBytes) {
  std::vector<std::string> bytes;
  for (int i = 0; i < 2; ++i) {
    TestDaemon daemon(
        [](Config& config) { config.worker_program = RealWorker(); });
    wire::CompileRequest request;
    *request.mutable_graph() = Slice{6, 5}.graph();
    request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
    // What a client calls its assumptions is no part of an artifact.
    wire::SymGuard& assumed = *request.mutable_assumptions()->add_symbols();
    assumed.mutable_condition()->set_value(1);
    assumed.set_origin(absl::StrCat("client ", i));
    const CompileAnswer answer = daemon.client().Compile(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    bytes.push_back(answer.result.artifact().artifact());
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(GuardsTest, ALocalWorkerPlansForItsCallersSizesAtOnce) {
  SessionOptions options;
  options.local_only = true;
  options.local_worker = {.program = RealWorker(),
                          .scratch_root = testing::TempDir()};
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Slice slice = {6, 5};
  const auto callable = (*session)->Compile(slice.graph());
  ASSERT_TRUE(callable.ok()) << callable.status();
  slice.ExpectRight(**callable);
  EXPECT_EQ((*callable)->compiles(), 1);
}

}  // namespace
}  // namespace kiln

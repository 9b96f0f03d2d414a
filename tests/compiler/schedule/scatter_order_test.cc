// Under the option `deterministic` a scatter on CUDA gives one result, bit for
// bit, in whatever order its updates are done.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph_passes/decompose_composites.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

constexpr ArtifactOptions kAsked = {.deterministic = true};

PassEnv OnCuda() {
  PassEnv env{*TargetFromName("sm_90")};
  env.options.artifact = kAsked;
  return env;
}

LoopProgram Lowered(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const auto decomposed = DecomposeComposites(*graph, OnCuda());
  EXPECT_TRUE(decomposed.ok()) << decomposed.status();
  const auto program = LowerGraph(*graph, kAsked);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : LoopProgram();
}

bool HangsOnTheOrder(const struct Store& store, DType dtype) {
  if (store.mode == StoreMode::kAtomicMax) return false;
  if (store.mode == StoreMode::kAtomicAdd ||
      store.mode == StoreMode::kAtomicMul)
    return IsFloat(dtype);
  bool indirect = false;
  for (const SymExpr& e : store.index) {
    e.VisitVars([&](Var v) { indirect |= v.kind == Var::Kind::kIndirect; });
  }
  // Where only the last update is let through, there is a mask.
  return indirect && store.mask == Store::kNoMask;
}

class Scatter : public testing::TestWithParam<const char*> {};

TEST_P(Scatter, MeansTheSameAndHasNoStoreThatHangsOnTheOrder) {
  const std::string text = absl::StrCat("graph @g() on cuda", GetParam());
  const LoopProgram program = Lowered(text);
  EXPECT_EQ(VerifyLoops(program), absl::OkStatus()) << ToText(program);
  for (const LoopStep& step : program.steps) {
    const auto* nest = std::get_if<LoopNest>(&step);
    if (nest == nullptr) continue;
    for (const struct Store& store : nest->stores) {
      EXPECT_FALSE(HangsOnTheOrder(store, program.buffers[store.buffer].dtype))
          << ToText(program);
    }
  }
  const auto graph = ParseGraph(text);
  const std::vector<RefValue> inputs = RandomInputs(*graph);
  const auto due = RunReference(*graph, inputs);
  ASSERT_TRUE(due.ok()) << due.status();
  const auto got = RunLoops(program, {}, inputs);
  ASSERT_TRUE(got.ok()) << got.status() << ToText(program);
  ExpectClose(got->outputs[0], due->outputs[0], ToleranceOf(*graph), text);
}

INSTANTIATE_TEST_SUITE_P(
    Cuda, Scatter,
    testing::Values(
        R"((%x: f32[8], %i: i64[40], %v: f32[40]) -> (%y) {
          %y = scatter_add(%x, 0, %i, %v)
        })",
        R"((%x: f64[8], %i: i64[40], %v: f64[40]) -> (%y) {
          %y = scatter_add(%x, 0, %i, %v)
        })",
        R"((%x: bf16[4, 6], %i: i64[9], %v: bf16[9, 6]) -> (%y) {
          %y = index_add(%x, 0, %i, %v, alpha=2)
        })",
        R"((%x: f32[4, 6], %i: i64[9], %v: f32[9, 6]) -> (%y) {
          %y = index_put(%x, [%i], %v, true)
        })",
        R"((%x: f32[4, 6], %i: i64[9], %v: f32[9, 6]) -> (%y) {
          %y = index_put(%x, [%i], %v, false)
        })",
        R"((%x: f32[4, 6], %i: i64[9, 6], %v: f32[9, 6]) -> (%y) {
          %y = scatter.src(%x, 0, %i, %v)
        })",
        R"((%g: f16[3, 5, 6], %i: i64[3, 5]) -> (%y) {
          %y = embedding_dense_backward(%g, %i, 4, 1, false)
        })",
        R"((%x: f32[4, 6], %i: i64[9, 6], %v: f32[9, 6]) -> (%y) {
          %y = scatter_reduce.two(%x, 0, %i, %v, "mean", include_self=false)
        })",
        R"((%x: f32[4, 6], %i: i64[9, 6], %v: f32[9, 6]) -> (%y) {
          %y = scatter_reduce.two(%x, 0, %i, %v, "amin", include_self=false)
        })",
        R"((%x: f32[8], %i: i64[40], %v: f32[40]) -> (%y) {
          %y = scatter_reduce.two(%x, 0, %i, %v, "prod", include_self=true)
        })",
        R"((%x: f64[7, 4, 6], %i: i64[5, 9, 6], %v: f64[6, 9, 8]) -> (%y) {
          %y = scatter_reduce.two(%x, 1, %i, %v, "prod", include_self=false)
        })",
        R"((%x: f32[3, 6], %i: i64[3, 1], %v: f32[3, 1]) -> (%y) {
          %y = scatter_reduce.two(%x, 1, %i, %v, "prod", include_self=false)
        })",
        R"((%x: bf16[4, 6], %i: i64[9], %v: bf16[9, 6]) -> (%y) {
          %y = index_reduce(%x, 0, %i, %v, "prod", include_self=false)
        })",
        R"((%x: f32[3, 4, 2], %i: i64[5], %v: f32[3, 5, 2]) -> (%y) {
          %y = index_reduce(%x, 1, %i, %v, "prod", include_self=true)
        })",
        R"((%x: i64[4, 6], %i: i64[9], %v: i64[9, 6]) -> (%y) {
          %y = index_reduce(%x, 0, %i, %v, "amax", include_self=false)
        })"));

RefTensor Filled(DType dtype, const std::vector<double>& values) {
  const Sizes sizes = {static_cast<int64_t>(values.size())};
  RefTensor tensor = RefTensor::Zeros(dtype, sizes, {1});
  Elements elements =
      IsFloat(dtype) ? Elements::Floats(sizes) : Elements::Ints(sizes);
  for (size_t k = 0; k < values.size(); ++k) {
    if (IsFloat(dtype)) {
      elements.f[k] = values[k];
    } else {
      elements.i[k] = static_cast<int64_t>(values[k]);
    }
  }
  Store(elements, tensor);
  return tensor;
}

// Element 0 meets numbers of one size, 1 of all sizes, 2 denormal ones, 3 to 5
// infinities and NaN.
TEST(ExactSums, AreEqualInAnyOrder) {
  const double inf = HUGE_VAL;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    std::vector<double> places, values;
    const auto add = [&](double place, double value) {
      places.push_back(place);
      values.push_back(value);
    };
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int k = 0; k < 300; ++k) {
      add(0, static_cast<float>(uniform(random)));
      add(1, std::ldexp(static_cast<float>(uniform(random)), k / 3 - 50));
      add(2, std::ldexp(k - 140, -149));
    }
    for (const double x : {1.0, inf, -3.0}) add(3, x);
    for (const double x : {inf, 1.0, -inf}) add(4, x);
    for (const double x : {-inf, 2.0}) add(5, x);
    const std::string d = dtype == DType::kFloat32 ? "f32" : "f64";
    const std::string n = absl::StrCat(places.size());
    const LoopProgram program = Lowered(absl::StrCat(
        "graph @g() on cuda(%x: ", d, "[6], %i: i64[", n, "], %v: ", d, "[", n,
        "]) -> (%y) {\n", "  %y = scatter_add(%x, 0, %i, %v)\n}"));
    const RefTensor zeros = Filled(dtype, std::vector<double>(6));
    std::vector<double> first;
    for (int round = 0; round < 4; ++round) {
      const auto got =
          RunLoops(program, {},
                   std::vector<RefValue>{zeros, Filled(DType::kInt64, places),
                                         Filled(dtype, values)});
      ASSERT_TRUE(got.ok()) << got.status();
      const Elements y = Load(std::get<RefTensor>(got->outputs[0]));
      if (round == 0) first.assign(y.f.begin(), y.f.end());
      for (int k = 0; k < 6; ++k) {
        EXPECT_TRUE(y.f[k] == first[k] ||
                    (std::isnan(y.f[k]) && std::isnan(first[k])))
            << d << " element " << k;
      }
      std::vector<size_t> order(places.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<double> p, v;
      for (const size_t k : order) {
        p.push_back(places[k]);
        v.push_back(values[k]);
      }
      places = p;
      values = v;
    }
    double due[3] = {};
    for (size_t k = 0; k < places.size(); ++k)
      if (places[k] < 3) due[static_cast<int>(places[k])] += values[k];
    const double unit = dtype == DType::kFloat32 ? 1e-7 : 1e-15;
    EXPECT_NEAR(first[0], due[0], 30 * unit);
    EXPECT_NEAR(first[1], due[1], std::ldexp(300 * unit, 50));
    EXPECT_NEAR(first[2], due[2], std::ldexp(1, -149));
    EXPECT_EQ(first[3], inf);
    EXPECT_TRUE(std::isnan(first[4]));
    EXPECT_EQ(first[5], -inf);
  }
}

}  // namespace
}  // namespace kiln

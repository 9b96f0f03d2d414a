// What picking the executor of a call costs: ns a call, and ns a guard.
#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "client/guard_table.h"
#include "proto/graph.pb.h"

namespace kiln {
namespace {

alignas(16) char memory[64];

// `inputs` tensors of f32[s0, 64], as a transformer's parameters and
// activations are.
Plan ManyInputs(int inputs) {
  Plan plan;
  wire::SymExpr s0;
  s0.add_code()->set_op(wire::SYM_OP_SYMBOL);
  plan.expressions = {{*SymProgram::FromWire(s0, 1), {0}},
                      {SymProgram::Constant(64), {}},
                      {SymProgram::Constant(1), {}},
                      {SymProgram::Constant(0), {}}};
  plan.symbols = {{"s0", PlanSymbol::Source::kSize, 0, 0, 2, 1 << 20}};
  for (int i = 0; i < inputs; ++i) {
    // Every eighth is dynamic, the rest are parameters.
    const ExprId rows = i % 8 == 0 ? 0 : 1;
    plan.inputs.push_back(
        PlanTensorInput{DType::kFloat32, {rows, 1}, {1, 2}, 3, 16});
  }
  return plan;
}

std::vector<InputValue> Call(int inputs) {
  std::vector<InputValue> values;
  for (int i = 0; i < inputs; ++i) {
    Tensor tensor;
    tensor.data = memory;
    tensor.sizes = {i % 8 == 0 ? 24 : 64, 64};
    tensor.strides = {64, 1};
    values.emplace_back(tensor);
  }
  return values;
}

void Find(benchmark::State& state) {
  const int inputs = static_cast<int>(state.range(0));
  const auto table = GuardTable().With(CompiledGuards(ManyInputs(inputs), {}));
  const std::vector<InputValue> values = Call(inputs);
  const std::vector<InputView> call = ViewsOf(values);
  for (auto _ : state) {
    benchmark::DoNotOptimize(table->Find(call));
  }
  state.counters["per_guard"] =
      benchmark::Counter(static_cast<double>(table->entry(0).count()),
                         benchmark::Counter::kIsIterationInvariantRate |
                             benchmark::Counter::kInvert);
}
BENCHMARK(Find)->Arg(2)->Arg(16)->Arg(150);

}  // namespace
}  // namespace kiln

BENCHMARK_MAIN();

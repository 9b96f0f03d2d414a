// The extern kernels of the CPU on shapes of real models. Prints time and, as
// a counter, the rate in multiply-adds counted twice.
//
//   bazel run -c opt //tests/runtime/extern_kernels:extern_kernels_bench
#include <benchmark/benchmark.h>

#include <vector>

#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/cpu_externs.h"
#include "runtime/extern_kernels/dnnl_convolution.h"

namespace kiln {
namespace {

struct Opened {
  std::shared_ptr<CpuDevice> device =
      std::make_shared<CpuDevice>(CpuDeviceOptions{});
  std::shared_ptr<ExternLibrary> externs = MakeCpuExterns(device, {});
};

Opened& Cpu() {
  static Opened opened;
  return opened;
}

void Matmul(benchmark::State& state, DType dtype) {
  MatmulProblem p;
  p.dtype = dtype;
  p.batch = state.range(0);
  p.m = state.range(1);
  p.k = state.range(2);
  p.n = state.range(3);
  p.a = {p.m * p.k, p.k, 1};
  p.b = {p.k * p.n, 1, p.k};
  p.out = {p.m * p.n, p.n, 1};
  const auto call = Cpu().externs->Prepare(p);
  std::vector<double> a(p.batch * p.m * p.k), b(p.batch * p.k * p.n),
      out(p.batch * p.m * p.n);
  for (auto _ : state) {
    if (!(*call)
             ->Run({{a.data(), b.data(), nullptr, out.data()}}, nullptr)
             .ok()) {
      state.SkipWithError("refused");
      break;
    }
  }
  state.counters["flops"] =
      benchmark::Counter(2.0 * p.batch * p.m * p.n * p.k,
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(Matmul, f32, DType::kFloat32)
    ->Args({1, 1024, 1024, 1024})
    ->Args({1, 128, 32, 96})
    ->Args({8, 64, 8, 64})
    ->Args({1, 8, 768, 768})
    ->UseRealTime();
BENCHMARK_CAPTURE(Matmul, bf16, DType::kBFloat16)
    ->Args({1, 1024, 1024, 1024})
    ->UseRealTime();
BENCHMARK_CAPTURE(Matmul, f64, DType::kFloat64)
    ->Args({1, 512, 512, 512})
    ->UseRealTime();

// A linear of constant weights that lie by column, as they lie and as a copy, on one
// thread. Args: rows, k, n, whether there is a copy.
void Linear(benchmark::State& state) {
  static const auto device =
      std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 1});
  static const auto externs = MakeCpuExterns(device, {});
  MatmulProblem p;
  p.m = state.range(0);
  p.k = state.range(1);
  p.n = state.range(2);
  p.a = {0, p.k, 1};
  p.b = {0, 1, p.k};
  p.out = {0, p.n, 1};
  const auto call = externs->Prepare(p);
  std::vector<float> a(p.m * p.k), b(p.k * p.n), out(p.m * p.n);
  ExternBuffers buffers{{a.data(), b.data(), nullptr, out.data()}};
  const OperandForm form = (*call)->operand_form();
  if (state.range(3) != 0) {
    if (form.operand < 0) {
      state.SkipWithError("no copy is offered");
      return;
    }
    buffers.prepared = *device->allocator().Allocate(form.bytes, nullptr);
    if (!(*call)->PrepareOperand(buffers, buffers.prepared).ok()) {
      state.SkipWithError("no copy");
    }
  }
  for (auto _ : state) {
    if (!(*call)->Run(buffers, nullptr).ok()) {
      state.SkipWithError("refused");
      break;
    }
  }
  if (buffers.prepared != nullptr) {
    device->allocator().Free(buffers.prepared, form.bytes, nullptr);
  }
}
BENCHMARK(Linear)->ArgsProduct({{8, 32, 128, 256}, {768}, {768, 3072}, {0, 1}});

// Args: batch, heads, queries, keys, width, causal
void Attention(benchmark::State& state, DType dtype) {
  AttentionProblem p;
  p.dtype = dtype;
  p.batch = state.range(0);
  p.heads = p.key_heads = state.range(1);
  p.queries = state.range(2);
  p.keys = state.range(3);
  p.width = p.value_width = state.range(4);
  p.scale = 0.125;
  if (state.range(5) != 0) p.causal = AttentionProblem::Causal::kTopLeft;
  const auto lay = [&](int64_t rows) {
    return AttentionProblem::Strides{p.heads * rows * p.width, rows * p.width,
                                     p.width, 1};
  };
  p.query = p.out = lay(p.queries);
  p.key = p.value = lay(p.keys);
  p.logsumexp = {p.heads * p.queries, p.queries, 1, 0};
  const auto call = Cpu().externs->Prepare(p);
  std::vector<float> q(p.batch * p.query.batch), k(p.batch * p.key.batch),
      v(k.size()), out(q.size()), logsumexp(p.batch * p.logsumexp.batch);
  ExternBuffers buffers;
  buffers.operand[kQueryOperand] = q.data();
  buffers.operand[kKeyOperand] = k.data();
  buffers.operand[kValueOperand] = v.data();
  buffers.operand[kOutOperand] = out.data();
  buffers.operand[kLogsumexpOperand] = logsumexp.data();
  for (auto _ : state) {
    if (!(*call)->Run(buffers, nullptr).ok()) {
      state.SkipWithError("refused");
      break;
    }
  }
  state.counters["flops"] =
      benchmark::Counter(4.0 * p.batch * p.heads * p.queries * p.keys * p.width,
                         benchmark::Counter::kIsIterationInvariantRate);
}

void AttentionShapes(benchmark::internal::Benchmark* b) {
  for (const int causal : {0, 1}) {
    for (const int length : {16, 32, 64, 128, 256, 512})
      b->Args({1, 12, length, length, 64, causal});
  }
  b->Args({1, 12, 1, 128, 64, 0})->Args({1, 12, 1, 512, 64, 0});
  b->UseRealTime();
}
BENCHMARK_CAPTURE(Attention, f32, DType::kFloat32)->Apply(AttentionShapes);
BENCHMARK_CAPTURE(Attention, bf16, DType::kBFloat16)->Apply(AttentionShapes);

// Args: batch, channels in, out, side, window, stride, channels-last
void Convolution(benchmark::State& state, ConvolutionProblem::Wanted wanted) {
  ConvolutionProblem p;
  p.wanted = wanted;
  p.batch = state.range(0);
  p.image_channels = state.range(1);
  p.result_channels = state.range(2);
  const int64_t pad = state.range(4) / 2;
  for (int i = 0; i < 2; ++i) {
    p.image[i] = state.range(3);
    p.window[i] = state.range(4);
    p.stride[i] = state.range(5);
    p.padding[i] = pad;
    p.result[i] = (p.image[i] + 2 * pad - p.window[i]) / p.stride[i] + 1;
  }
  const bool last = state.range(6) != 0;
  const auto lay = [last](int64_t channels, const int64_t* extents,
                          int64_t* strides) {
    const int64_t plane = extents[0] * extents[1];
    strides[0] = channels * plane;
    strides[1] = last ? 1 : plane;
    strides[2] = last ? extents[1] * channels : extents[1];
    strides[3] = last ? channels : 1;
  };
  lay(p.image_channels, p.image, p.image_strides);
  lay(p.image_channels, p.window, p.weight_strides);
  lay(p.result_channels, p.result, p.result_strides);
  const auto call = Cpu().externs->Prepare(p);
  std::vector<float> image(p.batch * p.image_strides[0]),
      weights(p.result_channels * p.weight_strides[0]),
      result(p.batch * p.result_strides[0]);
  for (auto _ : state) {
    if (!(*call)
             ->Run({{image.data(), weights.data(), result.data(), nullptr}},
                   nullptr)
             .ok()) {
      state.SkipWithError("refused");
      break;
    }
  }
  state.counters["flops"] = benchmark::Counter(
      2.0 * p.batch * p.result_channels * p.result[0] * p.result[1] *
          p.image_channels * p.window[0] * p.window[1],
      benchmark::Counter::kIsIterationInvariantRate);
}

void Shapes(benchmark::internal::Benchmark* b) {
  for (const int last : {0, 1}) {
    b->Args({8, 64, 64, 56, 3, 1, last});
    b->Args({8, 256, 64, 56, 1, 1, last});
    b->Args({8, 3, 64, 224, 7, 2, last});
    b->Args({1, 64, 64, 56, 3, 1, last});
  }
  b->UseRealTime();
}
BENCHMARK_CAPTURE(Convolution, result, ConvolutionProblem::Wanted::kResult)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(Convolution, image, ConvolutionProblem::Wanted::kImage)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(Convolution, weights, ConvolutionProblem::Wanted::kWeights)
    ->Apply(Shapes);

}  // namespace
}  // namespace kiln

BENCHMARK_MAIN();

#include "runtime/extern_kernels/upcast.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/half_float.h"

namespace kiln {
namespace {

constexpr int kRank = 5;

// Conversions below which a second thread is not worth waking.
constexpr int64_t kElementsPerPiece = 16 * 1024;

// Sizes and strides of an operand, filled up with dimensions of size 1.
struct Layout {
  std::array<int64_t, kRank> sizes = {1, 1, 1, 1, 1};
  std::array<int64_t, kRank> strides = {};
  int64_t elements() const {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                           std::multiplies<>());
  }
};

// The same shape without gaps, its dimensions in the same order of strides. A
// dimension that repeats one element (stride 0) is kept so.
Layout DenseLike(const Layout& from) {
  std::array<int, kRank> order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return from.strides[a] < from.strides[b];
  });
  Layout dense = from;
  int64_t step = 1;
  for (const int dim : order) {
    if (from.strides[dim] == 0 && from.sizes[dim] != 0) {
      dense.strides[dim] = 0;
      continue;
    }
    dense.strides[dim] = step;
    step *= std::max<int64_t>(1, from.sizes[dim]);
  }
  return dense;
}

// A half tensor and its widened copy, a row (the dimension that is dense in
// both) at a time.
struct Conversion {
  Layout half;
  Layout wide;
  bool bfloat = false;
  int64_t bytes = 0;  // of the wide copy

  // Visits each row once, on all threads: visit(half offset, half step, wide
  // offset, wide step, count). Repeated elements are visited once.
  template <typename Visit>
  void ForEachRow(ThreadPool& threads, const Visit& visit) const {
    if (half.elements() == 0) return;
    std::array<int, kRank> order;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return wide.strides[a] > wide.strides[b];
    });
    std::array<int64_t, kRank> counts;
    for (int i = 0; i < kRank; ++i) {
      counts[i] = wide.strides[order[i]] == 0 ? 1 : half.sizes[order[i]];
    }
    // Repeated dimensions have stride 0 and so stand last: the row is the last
    // one that is not.
    int row = kRank - 1;
    while (row > 0 && counts[row] == 1) --row;
    int64_t rows = 1;
    for (int i = 0; i < row; ++i) rows *= counts[i];
    auto visit_rows = [&](int64_t begin, int64_t end) {
      for (int64_t number = begin; number < end; ++number) {
        int64_t rest = number;
        int64_t half_at = 0;
        int64_t wide_at = 0;
        for (int i = row - 1; i >= 0; --i) {
          const int64_t at = rest % counts[i];
          rest /= counts[i];
          half_at += at * half.strides[order[i]];
          wide_at += at * wide.strides[order[i]];
        }
        visit(half_at, half.strides[order[row]], wide_at,
              wide.strides[order[row]], counts[row]);
      }
    };
    threads.ParallelFor(
        rows, std::max<int64_t>(1, kElementsPerPiece / counts[row]),
        [](void* context, int64_t begin, int64_t end) {
          (*static_cast<decltype(visit_rows)*>(context))(begin, end);
        },
        &visit_rows);
  }

  void Widen(ThreadPool& threads, const uint16_t* from, float* to) const {
    ForEachRow(threads, [&](int64_t half_at, int64_t half_step, int64_t wide_at,
                            int64_t wide_step, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const uint16_t bits = from[half_at + i * half_step];
        to[wide_at + i * wide_step] =
            bfloat ? FloatOfBFloat16(bits) : FloatOfFloat16(bits);
      }
    });
  }

  void Narrow(ThreadPool& threads, const float* from, uint16_t* to) const {
    ForEachRow(threads, [&](int64_t half_at, int64_t half_step, int64_t wide_at,
                            int64_t wide_step, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const float value = from[wide_at + i * wide_step];
        to[half_at + i * half_step] =
            bfloat ? BFloat16Of(value) : Float16Of(value);
      }
    });
  }
};

Conversion MakeConversion(const Layout& half, DType dtype) {
  Conversion conversion;
  conversion.half = half;
  conversion.wide = DenseLike(half);
  conversion.bfloat = dtype == DType::kBFloat16;
  conversion.bytes =
      std::max<int64_t>(1, half.elements()) * SizeInBytes(DType::kFloat32);
  return conversion;
}

class Upcast final : public PreparedCall {
 public:
  explicit Upcast(CpuDevice& device) : device_(device) {}

  absl::Status Run(const ExternBuffers& buffers, Stream stream) const override {
    const int prepared = buffers.prepared == nullptr ? -1 : operand_of_form;
    int64_t bytes = 0;
    std::array<int64_t, kOperands> starts;
    for (int i = 0; i < kOperands; ++i) {
      starts[i] = bytes;
      if (i != prepared) bytes += (operands[i].bytes + 63) / 64 * 64;
    }
    ASSIGN_OR_RETURN(void* const room,
                     device_.allocator().Allocate(bytes, stream));
    ExternBuffers wide;
    wide.workspace = buffers.workspace;
    wide.prepared = buffers.prepared;
    for (int i = 0; i < kOperands; ++i) {
      if (buffers.operand[i] == nullptr || i == prepared) continue;
      wide.operand[i] = static_cast<char*>(room) + starts[i];
      if (i == written) continue;
      operands[i].Widen(device_.threads(),
                        static_cast<const uint16_t*>(buffers.operand[i]),
                        static_cast<float*>(wide.operand[i]));
    }
    const absl::Status status = inner->Run(wide, stream);
    if (status.ok() && buffers.operand[written] != nullptr) {
      operands[written].Narrow(
          device_.threads(), static_cast<const float*>(wide.operand[written]),
          static_cast<uint16_t*>(buffers.operand[written]));
    }
    device_.allocator().Free(room, bytes, stream);
    return status;
  }

  OperandForm operand_form() const override {
    OperandForm form = inner->operand_form();
    if (operand_of_form < 0) return form;
    const Conversion& conversion = operands[operand_of_form];
    absl::StrAppend(&form.layout, conversion.bfloat ? "bf16" : "f16", " ",
                    absl::StrJoin(conversion.half.strides, ","));
    return form;
  }

  absl::Status PrepareOperand(const ExternBuffers& buffers,
                              void* to) const override {
    const Conversion& conversion = operands[operand_of_form];
    ASSIGN_OR_RETURN(void* const room,
                     device_.allocator().Allocate(conversion.bytes, nullptr));
    conversion.Widen(
        device_.threads(),
        static_cast<const uint16_t*>(buffers.operand[operand_of_form]),
        static_cast<float*>(room));
    ExternBuffers wide;
    wide.operand[operand_of_form] = room;
    const absl::Status status = inner->PrepareOperand(wide, to);
    device_.allocator().Free(room, conversion.bytes, nullptr);
    return status;
  }

  int64_t workspace_bytes() const override { return inner->workspace_bytes(); }
  absl::string_view library() const override { return inner->library(); }
  std::string algorithm() const override { return inner->algorithm(); }

  static constexpr int kOperands = 5;
  std::array<Conversion, kOperands> operands;
  int written = 0;
  std::shared_ptr<const PreparedCall> inner;
  int operand_of_form = -1;  // of inner's operand_form

 private:
  CpuDevice& device_;
};

Layout MatrixLayout(int64_t batch, int64_t rows, int64_t columns,
                    const MatrixStrides& strides) {
  Layout layout;
  layout.sizes = {batch, rows, columns, 1, 1};
  layout.strides = {strides.batch, strides.row, strides.column, 0, 0};
  return layout;
}

MatrixStrides StridesOf(const Layout& dense) {
  return {dense.strides[0], dense.strides[1], dense.strides[2]};
}

ExternProblem Widened(const MatmulProblem& p, Upcast& call) {
  call.operands[0] =
      MakeConversion(MatrixLayout(p.batch, p.m, p.k, p.a), p.dtype);
  call.operands[1] =
      MakeConversion(MatrixLayout(p.batch, p.k, p.n, p.b), p.dtype);
  call.operands[3] =
      MakeConversion(MatrixLayout(p.batch, p.m, p.n, p.out), p.dtype);
  call.written = 3;
  MatmulProblem wide = p;
  wide.dtype = DType::kFloat32;
  wide.a = StridesOf(call.operands[0].wide);
  wide.b = StridesOf(call.operands[1].wide);
  wide.out = StridesOf(call.operands[3].wide);
  if (p.has_bias) {
    call.operands[2] =
        MakeConversion(MatrixLayout(p.batch, p.m, p.n, p.bias), p.dtype);
    wide.bias = StridesOf(call.operands[2].wide);
  }
  return wide;
}

Layout TensorLayout(int64_t first, int64_t second, const int64_t* spatial,
                    const int64_t* strides) {
  Layout layout;
  layout.sizes = {first, second, spatial[0], spatial[1], spatial[2]};
  std::copy(strides, strides + kRank, layout.strides.begin());
  return layout;
}

ExternProblem Widened(const ConvolutionProblem& p, Upcast& call) {
  call.operands[0] = MakeConversion(
      TensorLayout(p.batch, p.image_channels, p.image, p.image_strides),
      p.dtype);
  call.operands[1] = MakeConversion(
      TensorLayout(p.result_channels, p.image_channels / p.groups, p.window,
                   p.weight_strides),
      p.dtype);
  call.operands[2] = MakeConversion(
      TensorLayout(p.batch, p.result_channels, p.result, p.result_strides),
      p.dtype);
  call.written = p.wanted == ConvolutionProblem::Wanted::kImage     ? 0
                 : p.wanted == ConvolutionProblem::Wanted::kWeights ? 1
                                                                    : 2;
  ConvolutionProblem wide = p;
  wide.dtype = DType::kFloat32;
  int64_t* const strides[] = {wide.image_strides, wide.weight_strides,
                              wide.result_strides};
  for (int i = 0; i < 3; ++i) {
    std::copy(call.operands[i].wide.strides.begin(),
              call.operands[i].wide.strides.end(), strides[i]);
  }
  if (p.has_bias) {
    Layout bias;
    bias.sizes[0] = call.written == 0 ? p.image_channels : p.result_channels;
    bias.strides[0] = p.bias_stride;
    call.operands[3] = MakeConversion(bias, p.dtype);
    wide.bias_stride = call.operands[3].wide.strides[0];
  }
  if (p.has_added) {
    call.operands[kAddedOperand] = MakeConversion(
        TensorLayout(p.batch, p.result_channels, p.result, p.added_strides),
        p.dtype);
    const auto& strides_of_added = call.operands[kAddedOperand].wide.strides;
    std::copy(strides_of_added.begin(), strides_of_added.end(),
              wide.added_strides);
  }
  return wide;
}

// Half types are ordered as they are; attention is CUDA's alone.
ExternProblem Widened(const OrderProblem& p, Upcast&) { return p; }
ExternProblem Widened(const AttentionProblem& p, Upcast&) { return p; }

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareUpcast(
    const ExternProblem& problem, ExternLibrary& inner, CpuDevice& device) {
  auto call = std::make_shared<Upcast>(device);
  const ExternProblem wide =
      std::visit([&](const auto& p) { return Widened(p, *call); }, problem);
  ASSIGN_OR_RETURN(call->inner, inner.Prepare(wide));
  call->operand_of_form = call->inner->operand_form().operand;
  return std::shared_ptr<const PreparedCall>(std::move(call));
}

}  // namespace kiln

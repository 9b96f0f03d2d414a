#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/plain_kernels.h"
#include "runtime/extern_kernels/tiled_product.h"

namespace kiln {
namespace {

template <typename T>
class PlainMatmul final : public PreparedCall {
 public:
  PlainMatmul(const MatmulProblem& problem, ThreadPool& threads)
      : p_(problem),
        threads_(threads),
        product_({p_.batch, p_.m, p_.n, p_.k}, threads.threads()) {}

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    product_.Run(Source{p_, static_cast<const T*>(buffers.operand[0]),
                        static_cast<const T*>(buffers.operand[1]),
                        static_cast<const T*>(buffers.operand[2]),
                        static_cast<T*>(buffers.operand[3])},
                 threads_);
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "own loops"; }

 private:
  struct Source {
    const MatmulProblem& p;
    const T* a;
    const T* b;
    const T* bias;
    T* out;

    void WriteRows(const PanelPart& part, int64_t width, T* panel) const {
      const T* const from = a + part.batch * p.a.batch + part.first * p.a.row +
                            part.step * p.a.column;
      WritePanel<T>({from, p.a.row, p.a.column}, part.count, width, part.depth,
                    panel);
    }

    void WriteColumns(const PanelPart& part, int64_t width, T* panel) const {
      const T* const from = b + part.batch * p.b.batch +
                            part.first * p.b.column + part.step * p.b.row;
      WritePanel<T>({from, p.b.column, p.b.row}, part.count, width, part.depth,
                    panel);
    }

    void Finish(const ProductTile& tile, T* sums, int64_t stride) const {
      for (int64_t i = 0; i < tile.rows; ++i) {
        T* const values = sums + i * stride;
        const int64_t row = tile.row + i;
        const T* const added = bias + tile.batch * p.bias.batch +
                               row * p.bias.row + tile.column * p.bias.column;
        for (int64_t j = 0; j < tile.columns; ++j) {
          values[j] = static_cast<T>(static_cast<T>(p.alpha) * values[j]);
          if (p.has_bias) {
            values[j] += static_cast<T>(p.beta) * added[j * p.bias.column];
          }
        }
        Activate(p.activation, values, tile.columns);
        T* const to = out + tile.batch * p.out.batch + row * p.out.row +
                      tile.column * p.out.column;
        for (int64_t j = 0; j < tile.columns; ++j)
          to[j * p.out.column] = values[j];
      }
    }
  };

  const MatmulProblem p_;
  ThreadPool& threads_;
  const TiledProduct<T> product_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PreparePlainMatmul(
    const MatmulProblem& problem, ThreadPool& threads) {
  if (problem.has_gelu_input) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(Describe(problem), ": only on CUDA"));
  }
  switch (problem.dtype) {
    case DType::kFloat32:
      return std::make_shared<PlainMatmul<float>>(problem, threads);
    case DType::kFloat64:
      return std::make_shared<PlainMatmul<double>>(problem, threads);
    case DType::kInt32:
      return std::make_shared<PlainMatmul<int32_t>>(problem, threads);
    case DType::kInt64:
      return std::make_shared<PlainMatmul<int64_t>>(problem, threads);
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   Describe(problem) + ": no plain loop for this dtype");
}

}  // namespace kiln

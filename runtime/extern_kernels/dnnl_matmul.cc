#include "runtime/extern_kernels/dnnl_matmul.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/matmul_pieces.h"
#include "runtime/extern_kernels/matrix_form.h"

namespace kiln {
namespace {

class DnnlMatmul final : public PreparedCall {
 public:
  DnnlMatmul(const BlasMatmul& matmul,
             std::shared_ptr<const DnnlLibrary> library, ThreadPool& threads)
      : blas_(matmul),
        p_(blas_.problem),
        library_(std::move(library)),
        threads_(threads),
        pieces_(p_, threads.threads()) {}

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    Work work{this, static_cast<const float*>(buffers.operand[0]),
              static_cast<const float*>(buffers.operand[1]),
              static_cast<const float*>(buffers.operand[2]),
              static_cast<float*>(buffers.operand[3])};
    if (blas_.swapped) std::swap(work.a, work.b);
    threads_.ParallelFor(
        pieces_.count(), pieces_.grain(),
        [](void* context, int64_t begin, int64_t end) {
          Work& work = *static_cast<Work*>(context);
          const DnnlLibrary::SingleThread alone(*work.self->library_);
          for (int64_t i = begin; i < end; ++i)
            work.self->RunPiece(work, work.self->pieces_[i]);
        },
        &work);
    return DnnlLibrary::Check(work.failed.load(), "sgemm");
  }

  absl::string_view library() const override { return "oneDNN"; }

 private:
  struct Work {
    const DnnlMatmul* self;
    const float* a;
    const float* b;
    const float* bias;
    float* out;
    std::atomic<dnnl_status_t> failed{dnnl_success};
  };

  void RunPiece(Work& work, const MatmulPieces::Piece& piece) const {
    const auto [batch, row, column, rows, columns] = piece;
    float* const out =
        work.out + batch * p_.out.batch + row * blas_.out.leading + column;
    if (p_.has_bias) {
      PutBias(work.bias + batch * p_.bias.batch + row * p_.bias.row +
                  column * p_.bias.column,
              rows, columns, out);
    }
    if (p_.k == 0) {
      // The library leaves the result of an empty sum to us.
      ScaleByBeta(rows, columns, out);
    } else {
      const dnnl_status_t status = library_->dnnl_sgemm(
          blas_.a.transposed ? 'T' : 'N', blas_.b.transposed ? 'T' : 'N', rows,
          columns, p_.k, static_cast<float>(p_.alpha),
          work.a + batch * p_.a.batch + row * p_.a.row, blas_.a.leading,
          work.b + batch * p_.b.batch + column * p_.b.column, blas_.b.leading,
          p_.has_bias ? static_cast<float>(p_.beta) : 0.0f, out,
          blas_.out.leading);
      if (status != dnnl_success) work.failed.store(status);
    }
    if (p_.activation == Activation::kNone) return;
    for (int64_t i = 0; i < rows; ++i) {
      Activate(p_.activation, out + i * blas_.out.leading, columns);
    }
  }

  void PutBias(const float* bias, int64_t rows, int64_t columns,
               float* out) const {
    for (int64_t i = 0; i < rows; ++i) {
      const float* const from = bias + i * p_.bias.row;
      float* const to = out + i * blas_.out.leading;
      if (p_.bias.column == 1) {
        std::copy(from, from + columns, to);
        continue;
      }
      for (int64_t j = 0; j < columns; ++j) to[j] = from[j * p_.bias.column];
    }
  }

  void ScaleByBeta(int64_t rows, int64_t columns, float* out) const {
    const float beta = static_cast<float>(p_.beta);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        float& element = out[i * blas_.out.leading + j];
        element = p_.has_bias ? beta * element : 0.0f;
      }
    }
  }

  const BlasMatmul blas_;
  const MatmulProblem& p_;  // of blas_
  const std::shared_ptr<const DnnlLibrary> library_;
  ThreadPool& threads_;
  const MatmulPieces pieces_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareDnnlMatmul(
    const MatmulProblem& problem, std::shared_ptr<const DnnlLibrary> library,
    ThreadPool& threads) {
  const std::optional<BlasMatmul> blas = ToBlas(problem);
  if (problem.dtype == DType::kFloat32 && blas.has_value()) {
    return std::make_shared<DnnlMatmul>(*blas, std::move(library), threads);
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   Describe(problem) + ": not one for oneDNN's sgemm");
}

}  // namespace kiln

#include "runtime/extern_kernels/dnnl_matmul.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/matrix_form.h"

namespace kiln {
namespace {

// Multiplications below which a second thread is not worth waking: 10 us of
// one core at 100 GFLOP/s.
constexpr int64_t kWorkPerThread = 500 * 1000;

class DnnlMatmul final : public PreparedCall {
 public:
  DnnlMatmul(const BlasMatmul& matmul,
             std::shared_ptr<const DnnlLibrary> library, ThreadPool& threads)
      : blas_(matmul),
        p_(blas_.problem),
        library_(std::move(library)),
        threads_(threads) {
    ChoosePieces();
  }

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    if (p_.m == 0 || p_.n == 0 || p_.batch == 0) return absl::OkStatus();
    Work work{this, static_cast<const float*>(buffers.operand[0]),
              static_cast<const float*>(buffers.operand[1]),
              static_cast<const float*>(buffers.operand[2]),
              static_cast<float*>(buffers.operand[3])};
    if (blas_.swapped) std::swap(work.a, work.b);
    threads_.ParallelFor(
        p_.batch * row_pieces_ * column_pieces_, grain_,
        [](void* context, int64_t begin, int64_t end) {
          Work& work = *static_cast<Work*>(context);
          const DnnlLibrary::SingleThread alone(*work.self->library_);
          for (int64_t i = begin; i < end; ++i) work.self->RunPiece(work, i);
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

  // Whole matrices first, then the longer side of each.
  void ChoosePieces() {
    const int64_t work = std::max<int64_t>(1, p_.m * p_.n) * (p_.k + 4);
    const int64_t wanted = std::min<int64_t>(
        threads_.threads(), p_.batch * work / kWorkPerThread + 1);
    if (p_.batch < wanted && p_.batch > 0) {
      const int64_t cuts = (wanted + p_.batch - 1) / p_.batch;
      if (p_.m >= p_.n) {
        piece_rows_ = (p_.m + cuts - 1) / cuts;
      } else {
        piece_columns_ = (p_.n + cuts - 1) / cuts;
      }
    }
    piece_rows_ = std::max<int64_t>(1, std::min(piece_rows_, p_.m));
    piece_columns_ = std::max<int64_t>(1, std::min(piece_columns_, p_.n));
    row_pieces_ = (p_.m + piece_rows_ - 1) / piece_rows_;
    column_pieces_ = (p_.n + piece_columns_ - 1) / piece_columns_;
    const int64_t pieces = p_.batch * row_pieces_ * column_pieces_;
    grain_ = std::max<int64_t>(1, pieces / std::max<int64_t>(1, wanted));
  }

  void RunPiece(Work& work, int64_t i) const {
    const int64_t batch = i / (row_pieces_ * column_pieces_);
    const int64_t row = i / column_pieces_ % row_pieces_ * piece_rows_;
    const int64_t column = i % column_pieces_ * piece_columns_;
    const int64_t rows = std::min(piece_rows_, p_.m - row);
    const int64_t columns = std::min(piece_columns_, p_.n - column);
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
  int64_t piece_rows_ = int64_t{1} << 62;
  int64_t piece_columns_ = int64_t{1} << 62;
  int64_t row_pieces_ = 1;
  int64_t column_pieces_ = 1;
  int64_t grain_ = 1;
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

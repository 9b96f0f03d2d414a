#include "runtime/extern_kernels/dnnl_matmul.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/matmul_pieces.h"
#include "runtime/extern_kernels/matrix_form.h"

namespace kiln {
namespace {

constexpr int64_t kLineElements = 64 / sizeof(float);  // of a cache line

// Whether rows that many elements apart spread over all sets of a cache.
bool IsSpread(int64_t leading) {
  return leading % kLineElements == 0 && leading / kLineElements % 2 == 1;
}

// The least distance between rows of `columns` elements that is.
int64_t SpreadLeading(int64_t columns) {
  return ((columns + kLineElements - 1) / kLineElements | 1) * kLineElements;
}

// Whether a piece's product is faster on a copy of its weights. Measured on AVX2 with
// one thread. Of weights that lie column by column, as those of torch.nn.Linear do, the
// copy takes 0.57 to 1.03 of the time for 8 to 256 rows. It gains nothing reliable from
// 384 rows on, nor below 8 rows. Of weights that lie row by row it takes 0.48 to 0.98 of
// the time for 32 to 256 rows, but up to 1.35 for fewer rows. Smaller weights gain less,
// some of them nothing. On AVX-512 nothing was measured, so weights stay as they lie.
bool WantsCopy(const DnnlLibrary& library, const BlasMatrix& weights,
               const MatmulPieces::Piece& piece, int64_t k) {
  constexpr int64_t kLeastRowsByColumn = 8;
  constexpr int64_t kLeastRowsByRow = 32;
  constexpr int64_t kMostRows = 256;
  constexpr int64_t kLeastWeights = 256 * 256;
  if (!library.has_avx2_alone()) return false;
  if (k * piece.columns < kLeastWeights || piece.rows > kMostRows) return false;
  if (weights.transposed) return piece.rows >= kLeastRowsByColumn;
  return piece.rows >= kLeastRowsByRow && !IsSpread(weights.leading);
}

class DnnlMatmul final : public PreparedCall {
 public:
  DnnlMatmul(const BlasMatmul& matmul,
             std::shared_ptr<const DnnlLibrary> library, ThreadPool& threads)
      : blas_(matmul),
        p_(blas_.problem),
        library_(std::move(library)),
        threads_(threads),
        pieces_(p_, threads.threads()) {
    if (pieces_.count() == 0 ||
        !WantsCopy(*library_, blas_.b, pieces_[0], p_.k)) {
      return;
    }
    copied_matrices_ = p_.b.batch == 0 ? 1 : p_.batch;
    copied_.leading = SpreadLeading(p_.n);
  }

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    Work work{this, static_cast<const float*>(buffers.operand[0]),
              static_cast<const float*>(buffers.operand[1]),
              static_cast<const float*>(buffers.operand[2]),
              static_cast<float*>(buffers.operand[3])};
    if (blas_.swapped) std::swap(work.a, work.b);
    if (buffers.prepared != nullptr) {
      work.b = static_cast<const float*>(buffers.prepared);
      work.b_form = copied_;
      work.b_strides = CopiedStrides();
    }
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

  OperandForm operand_form() const override {
    if (copied_matrices_ == 0) return {};
    return {blas_.swapped ? 0 : 1,
            copied_matrices_ * p_.k * copied_.leading * SizeInBytes(p_.dtype),
            absl::StrCat("rows of ", p_.n, " by ", copied_.leading, ", ", p_.k,
                         " in ", copied_matrices_, " from ", p_.b.batch, ", ",
                         p_.b.row, ", ", p_.b.column)};
  }

  absl::Status PrepareOperand(const ExternBuffers& buffers,
                              void* to) const override {
    library_->CountWeightReorder();
    Copying copying{
        this, static_cast<const float*>(buffers.operand[blas_.swapped ? 0 : 1]),
        static_cast<float*>(to)};
    threads_.ParallelFor(
        copied_matrices_ * RowBlocks(), 1,
        [](void* context, int64_t begin, int64_t end) {
          const Copying& copying = *static_cast<const Copying*>(context);
          for (int64_t i = begin; i < end; ++i)
            copying.self->CopyRows(copying, i);
        },
        &copying);
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "oneDNN"; }

 private:
  struct Work {
    const DnnlMatmul* self;
    const float* a;
    const float* b;
    const float* bias;
    float* out;
    // How b lies.
    BlasMatrix b_form = self->blas_.b;
    MatrixStrides b_strides = self->p_.b;
    std::atomic<dnnl_status_t> failed{dnnl_success};
  };
  struct Copying {
    const DnnlMatmul* self;
    const float* from;
    float* to;
  };

  // Rows that are copied at a time.
  static constexpr int64_t kBlock = 32;

  int64_t RowBlocks() const { return (p_.k + kBlock - 1) / kBlock; }

  MatrixStrides CopiedStrides() const {
    return {copied_matrices_ == 1 ? 0 : p_.k * copied_.leading, copied_.leading,
            1};
  }

  // Copies block `i` of the rows of all matrices.
  void CopyRows(const Copying& copying, int64_t i) const {
    const int64_t matrix = i / RowBlocks();
    const int64_t first = i % RowBlocks() * kBlock;
    const int64_t last = std::min(first + kBlock, p_.k);
    const MatrixStrides strides = CopiedStrides();
    const float* const from = copying.from + matrix * p_.b.batch;
    float* const to = copying.to + matrix * strides.batch;
    if (!blas_.b.transposed) {
      for (int64_t row = first; row < last; ++row) {
        std::copy_n(from + row * p_.b.row, p_.n, to + row * strides.row);
      }
      return;
    }
    // Reads lines of the first cache whole, and writes lines that all stay in it.
    for (int64_t column = 0; column < p_.n; ++column) {
      for (int64_t row = first; row < last; ++row) {
        to[row * strides.row + column] = from[row + column * p_.b.column];
      }
    }
  }

  void RunPiece(Work& work, const MatmulPieces::Piece& piece) const {
    const auto [batch, row, column, rows, columns] = piece;
    float* const out =
        work.out + batch * p_.out.batch + row * blas_.out.leading + column;
    if (p_.has_bias) {
      PutBias(work.bias + batch * p_.bias.batch + row * p_.bias.row +
                  column * p_.bias.column,
              rows, columns, out);
    }
    if (p_.k == 0 || static_cast<float>(p_.alpha) == 0) {
      // The library leaves the result of an empty sum, and of one times 0, to us.
      ScaleByBeta(rows, columns, out);
    } else {
      const dnnl_status_t status = library_->dnnl_sgemm(
          blas_.a.transposed ? 'T' : 'N', work.b_form.transposed ? 'T' : 'N',
          rows, columns, p_.k, static_cast<float>(p_.alpha),
          work.a + batch * p_.a.batch + row * p_.a.row, blas_.a.leading,
          work.b + batch * work.b_strides.batch +
              column * work.b_strides.column,
          work.b_form.leading, p_.has_bias ? static_cast<float>(p_.beta) : 0.0f,
          out, blas_.out.leading);
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
  // Of the copy of b: how many matrices, 0 where none is wanted, and how each lies.
  int64_t copied_matrices_ = 0;
  BlasMatrix copied_;
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

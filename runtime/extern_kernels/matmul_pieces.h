#ifndef KILN_RUNTIME_EXTERN_KERNELS_MATMUL_PIECES_H_
#define KILN_RUNTIME_EXTERN_KERNELS_MATMUL_PIECES_H_

#include <algorithm>
#include <cstdint>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// How the result of a matmul is cut for the threads of a CPU: whole matrices
// first, then the longer side of each. Immutable.
class MatmulPieces {
 public:
  struct Piece {
    int64_t batch = 0;
    int64_t row = 0;
    int64_t column = 0;
    int64_t rows = 0;
    int64_t columns = 0;
  };

  MatmulPieces(const MatmulProblem& problem, int threads)
      : m_(problem.m), n_(problem.n) {
    const int64_t batch = problem.batch;
    const int64_t work = std::max<int64_t>(1, m_ * n_) * (problem.k + 4);
    const int64_t wanted =
        std::min<int64_t>(threads, batch * work / kWorkPerThread + 1);
    if (batch < wanted && batch > 0) {
      const int64_t cuts = (wanted + batch - 1) / batch;
      if (m_ >= n_) {
        rows_ = (m_ + cuts - 1) / cuts;
      } else {
        columns_ = (n_ + cuts - 1) / cuts;
      }
    }
    rows_ = std::max<int64_t>(1, std::min(rows_, m_));
    columns_ = std::max<int64_t>(1, std::min(columns_, n_));
    row_cuts_ = (m_ + rows_ - 1) / rows_;
    column_cuts_ = (n_ + columns_ - 1) / columns_;
    count_ = batch * row_cuts_ * column_cuts_;
    grain_ = std::max<int64_t>(1, count_ / std::max<int64_t>(1, wanted));
  }

  int64_t count() const { return count_; }  // 0 for a result without elements
  // Pieces that one thread takes at a time.
  int64_t grain() const { return grain_; }

  Piece operator[](int64_t i) const {
    Piece piece;
    piece.batch = i / (row_cuts_ * column_cuts_);
    piece.row = i / column_cuts_ % row_cuts_ * rows_;
    piece.column = i % column_cuts_ * columns_;
    piece.rows = std::min(rows_, m_ - piece.row);
    piece.columns = std::min(columns_, n_ - piece.column);
    return piece;
  }

 private:
  // Multiplications below which a second thread is not worth waking: 10 us of
  // one core at 100 GFLOP/s.
  static constexpr int64_t kWorkPerThread = 500 * 1000;

  int64_t m_;
  int64_t n_;
  int64_t rows_ = int64_t{1} << 62;  // of a piece that is not the last
  int64_t columns_ = int64_t{1} << 62;
  int64_t row_cuts_ = 1;
  int64_t column_cuts_ = 1;
  int64_t count_ = 1;
  int64_t grain_ = 1;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_MATMUL_PIECES_H_

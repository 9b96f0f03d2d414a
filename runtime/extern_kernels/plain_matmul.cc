#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/plain_kernels.h"

namespace kiln {
namespace {

// A tile of the result and the depth of one pass over it: the two packed
// blocks and the sums of a float tile take 160 KiB, which an L2 holds.
constexpr int64_t kTileRows = 64;
constexpr int64_t kTileColumns = 128;
constexpr int64_t kDepth = 256;

template <typename T>
class PlainMatmul final : public PreparedCall {
 public:
  PlainMatmul(const MatmulProblem& problem, ThreadPool& threads)
      : p_(problem), threads_(threads) {}

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    if (p_.m == 0 || p_.n == 0) return absl::OkStatus();
    const Work work{this, static_cast<const T*>(buffers.operand[0]),
                    static_cast<const T*>(buffers.operand[1]),
                    static_cast<const T*>(buffers.operand[2]),
                    static_cast<T*>(buffers.operand[3])};
    threads_.ParallelFor(
        p_.batch * RowTiles() * ColumnTiles(), 1,
        [](void* context, int64_t begin, int64_t end) {
          const Work& work = *static_cast<const Work*>(context);
          work.self->RunTiles(work, begin, end);
        },
        const_cast<Work*>(&work));
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "own loops"; }

 private:
  struct Work {
    const PlainMatmul* self;
    const T* a;
    const T* b;
    const T* bias;
    T* out;
  };
  // Room for one thread.
  struct Room {
    std::vector<T> a = std::vector<T>(kTileRows * kDepth);
    std::vector<T> b = std::vector<T>(kDepth * kTileColumns);
    std::vector<T> sums = std::vector<T>(kTileRows * kTileColumns);
  };
  struct Tile {
    int64_t batch, row, column, rows, columns;
  };

  int64_t RowTiles() const { return (p_.m + kTileRows - 1) / kTileRows; }
  int64_t ColumnTiles() const {
    return (p_.n + kTileColumns - 1) / kTileColumns;
  }

  void RunTiles(const Work& work, int64_t begin, int64_t end) const {
    Room room;
    for (int64_t i = begin; i < end; ++i) {
      Tile tile;
      tile.batch = i / (RowTiles() * ColumnTiles());
      tile.row = i / ColumnTiles() % RowTiles() * kTileRows;
      tile.column = i % ColumnTiles() * kTileColumns;
      tile.rows = std::min(kTileRows, p_.m - tile.row);
      tile.columns = std::min(kTileColumns, p_.n - tile.column);
      std::fill(room.sums.begin(), room.sums.end(), T{0});
      for (int64_t k = 0; k < p_.k; k += kDepth) {
        AddDepth(work, tile, k, std::min(kDepth, p_.k - k), room);
      }
      Finish(work, tile, room);
    }
  }

  // sums += a[rows, k : k + depth] @ b[k : k + depth, columns]
  void AddDepth(const Work& work, const Tile& tile, int64_t k, int64_t depth,
                Room& room) const {
    const T* const a = work.a + tile.batch * p_.a.batch + tile.row * p_.a.row +
                       k * p_.a.column;
    const T* const b = work.b + tile.batch * p_.b.batch + k * p_.b.row +
                       tile.column * p_.b.column;
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t d = 0; d < depth; ++d) {
        room.a[i * kDepth + d] = a[i * p_.a.row + d * p_.a.column];
      }
    }
    for (int64_t d = 0; d < depth; ++d) {
      for (int64_t j = 0; j < tile.columns; ++j) {
        room.b[d * kTileColumns + j] = b[d * p_.b.row + j * p_.b.column];
      }
    }
    for (int64_t i = 0; i < tile.rows; ++i) {
      T* const sums = &room.sums[i * kTileColumns];
      for (int64_t d = 0; d < depth; ++d) {
        const T scale = room.a[i * kDepth + d];
        const T* const row = &room.b[d * kTileColumns];
        // All columns, also those past the edge: the compiler's vectors like
        // a fixed count, and nobody reads the rest.
        for (int64_t j = 0; j < kTileColumns; ++j) sums[j] += scale * row[j];
      }
    }
  }

  void Finish(const Work& work, const Tile& tile, Room& room) const {
    for (int64_t i = 0; i < tile.rows; ++i) {
      T* const values = &room.sums[i * kTileColumns];
      const int64_t row = tile.row + i;
      const T* const bias = work.bias + tile.batch * p_.bias.batch +
                            row * p_.bias.row + tile.column * p_.bias.column;
      for (int64_t j = 0; j < tile.columns; ++j) {
        values[j] = static_cast<T>(static_cast<T>(p_.alpha) * values[j]);
        if (p_.has_bias) {
          values[j] += static_cast<T>(p_.beta) * bias[j * p_.bias.column];
        }
      }
      Activate(p_.activation, values, tile.columns);
      T* const out = work.out + tile.batch * p_.out.batch + row * p_.out.row +
                     tile.column * p_.out.column;
      for (int64_t j = 0; j < tile.columns; ++j) {
        out[j * p_.out.column] = values[j];
      }
    }
  }

  const MatmulProblem p_;
  ThreadPool& threads_;
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

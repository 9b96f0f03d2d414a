#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/plain_kernels.h"
#include "runtime/extern_kernels/product_panels.h"

namespace kiln {
namespace {

// A tile of the result and the depth of one pass over it. The two blocks of
// panels and the sums take 600 KiB, which an L2 holds, and an element that is
// written to a panel is used a hundred times.
constexpr int64_t kTileRows = 96;
constexpr int64_t kTileRowBytes = 1536;
constexpr int64_t kDepth = 192;
// Multiplications below which a second thread is not worth waking.
constexpr int64_t kWorkPerThread = 500 * 1000;

int64_t CountOf(int64_t whole, int64_t part) {
  return (whole + part - 1) / part;
}

template <typename T>
class PlainMatmul final : public PreparedCall {
 public:
  PlainMatmul(const MatmulProblem& problem, ThreadPool& threads)
      : p_(problem), threads_(threads), kernel_(PanelKernels<T>().front()) {
    const int64_t row_panels = CountOf(p_.m, kernel_.rows);
    const int64_t column_panels = CountOf(p_.n, kernel_.columns);
    int64_t rows = std::min(row_panels, kTileRows / kernel_.rows);
    int64_t columns = std::min<int64_t>(
        column_panels, kTileRowBytes / sizeof(T) / kernel_.columns);
    const int64_t work = p_.batch * p_.m * p_.n * std::max<int64_t>(1, p_.k);
    const int64_t wanted =
        std::min<int64_t>(threads.threads(), work / kWorkPerThread + 1);
    const auto tiles = [&] {
      return p_.batch * CountOf(row_panels, rows) *
             CountOf(column_panels, columns);
    };
    while (work > 0 && tiles() < wanted && (rows > 1 || columns > 1)) {
      int64_t& longer = rows >= columns ? rows : columns;
      longer = CountOf(longer, 2);
    }
    tile_rows_ = rows * kernel_.rows;
    tile_columns_ = columns * kernel_.columns;
    grain_ = work > 0 ? CountOf(tiles(), wanted * kTilesPerThread) : 1;
  }

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    if (p_.batch == 0 || p_.m == 0 || p_.n == 0) return absl::OkStatus();
    const Work work{this, static_cast<const T*>(buffers.operand[0]),
                    static_cast<const T*>(buffers.operand[1]),
                    static_cast<const T*>(buffers.operand[2]),
                    static_cast<T*>(buffers.operand[3])};
    threads_.ParallelFor(
        p_.batch * RowTiles() * ColumnTiles(), grain_,
        [](void* context, int64_t begin, int64_t end) {
          const Work& work = *static_cast<const Work*>(context);
          work.self->RunTiles(work, begin, end);
        },
        const_cast<Work*>(&work));
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "own loops"; }

 private:
  static constexpr int64_t kTilesPerThread = 4;

  struct Work {
    const PlainMatmul* self;
    const T* a;
    const T* b;
    const T* bias;
    T* out;
  };
  // For one thread.
  struct Room {
    Room(int64_t rows, int64_t columns, int64_t depth)
        : a(new T[rows * depth]),
          b(new T[columns * depth]),
          sums(new T[rows * columns]) {}
    std::unique_ptr<T[]> a, b, sums;
  };
  struct Tile {
    int64_t batch, row, column, rows, columns;
  };

  int64_t RowTiles() const { return CountOf(p_.m, tile_rows_); }
  int64_t ColumnTiles() const { return CountOf(p_.n, tile_columns_); }

  void RunTiles(const Work& work, int64_t begin, int64_t end) const {
    Room room(tile_rows_, tile_columns_, std::min(kDepth, p_.k));
    for (int64_t i = begin; i < end; ++i) {
      Tile tile;
      tile.batch = i / (RowTiles() * ColumnTiles());
      tile.row = i / ColumnTiles() % RowTiles() * tile_rows_;
      tile.column = i % ColumnTiles() * tile_columns_;
      tile.rows = std::min(tile_rows_, p_.m - tile.row);
      tile.columns = std::min(tile_columns_, p_.n - tile.column);
      std::fill_n(room.sums.get(), tile_rows_ * tile_columns_, T{0});
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
    const int64_t height = kernel_.rows, width = kernel_.columns;
    for (int64_t i = 0; i < tile.rows; i += height) {
      WritePanel<T>({a + i * p_.a.row, p_.a.row, p_.a.column},
                    std::min(height, tile.rows - i), height, depth,
                    &room.a[i * depth]);
    }
    for (int64_t j = 0; j < tile.columns; j += width) {
      WritePanel<T>({b + j * p_.b.column, p_.b.column, p_.b.row},
                    std::min(width, tile.columns - j), width, depth,
                    &room.b[j * depth]);
    }
    for (int64_t j = 0; j < tile.columns; j += width) {
      for (int64_t i = 0; i < tile.rows; i += height) {
        kernel_.add(&room.a[i * depth], &room.b[j * depth], depth,
                    &room.sums[i * tile_columns_ + j], tile_columns_);
      }
    }
  }

  void Finish(const Work& work, const Tile& tile, Room& room) const {
    for (int64_t i = 0; i < tile.rows; ++i) {
      T* const values = &room.sums[i * tile_columns_];
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
  const PanelKernel<T> kernel_;
  int64_t tile_rows_ = 0;
  int64_t tile_columns_ = 0;
  int64_t grain_ = 1;
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

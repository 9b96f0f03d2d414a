#ifndef KILN_RUNTIME_EXTERN_KERNELS_TILED_PRODUCT_H_
#define KILN_RUNTIME_EXTERN_KERNELS_TILED_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "runtime/extern_kernels/product_panels.h"
#include "runtime/thread_pool.h"

namespace kiln {

struct ProductSizes {
  int64_t batch = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
};

// Rows or columns of a product that go into one panel (product_panels.h): `count` of
// them from `first` on, for `depth` steps from `step` on.
struct PanelPart {
  int64_t batch, first, count, step, depth;
};

// A piece of the result.
struct ProductTile {
  int64_t batch, row, column, rows, columns;
};

// Sums a product in tiles, which threads share out. Equal sizes give equal sums
// whatever the number of threads. Immutable.
//
// What is multiplied and where it goes is a Source, called from all threads:
//   void WriteRows(const PanelPart&, int64_t width, T* panel) const;
//   void WriteColumns(const PanelPart&, int64_t width, T* panel) const;
//     each step of a panel has `width` elements, those past `count` 0
//   void Finish(const ProductTile&, T* sums, int64_t stride) const;
//     rows of sums are `stride` apart; they may be overwritten
template <typename T>
class TiledProduct {
 public:
  TiledProduct(const ProductSizes& sizes, int threads)
      : sizes_(sizes), kernel_(PanelKernels<T>().front()) {
    const int64_t row_panels = CountOf(sizes.rows, kernel_.rows);
    const int64_t column_panels = CountOf(sizes.columns, kernel_.columns);
    int64_t rows = std::min(row_panels, kTileRows / kernel_.rows);
    int64_t columns = std::min<int64_t>(
        column_panels, kTileRowBytes / sizeof(T) / kernel_.columns);
    const int64_t work = sizes.batch * sizes.rows * sizes.columns *
                         std::max<int64_t>(1, sizes.depth);
    if (work == 0) return;
    const int64_t wanted =
        std::min<int64_t>(threads, work / kWorkPerThread + 1);
    const auto tiles = [&] {
      return sizes.batch * CountOf(row_panels, rows) *
             CountOf(column_panels, columns);
    };
    while (tiles() < wanted && (rows > 1 || columns > 1)) {
      int64_t& longer = rows >= columns ? rows : columns;
      longer = CountOf(longer, 2);
    }
    tile_rows_ = rows * kernel_.rows;
    tile_columns_ = columns * kernel_.columns;
    tiles_ = tiles();
    grain_ = CountOf(tiles_, wanted * kTilesPerThread);
  }

  template <typename Source>
  void Run(const Source& source, ThreadPool& threads) const {
    const Work<Source> work{this, &source};
    threads.ParallelFor(
        tiles_, grain_,
        [](void* context, int64_t begin, int64_t end) {
          const auto& work = *static_cast<const Work<Source>*>(context);
          work.self->RunTiles(*work.source, begin, end);
        },
        const_cast<Work<Source>*>(&work));
  }

 private:
  // A tile and the depth of one pass over it. The two blocks of panels and the sums
  // take 600 KiB, which an L2 holds, and an element that is written to a panel is used
  // a hundred times.
  static constexpr int64_t kTileRows = 96;
  static constexpr int64_t kTileRowBytes = 1536;
  static constexpr int64_t kDepth = 192;
  // Multiplications below which a second thread is not worth waking.
  static constexpr int64_t kWorkPerThread = 500 * 1000;
  static constexpr int64_t kTilesPerThread = 4;

  template <typename Source>
  struct Work {
    const TiledProduct* self;
    const Source* source;
  };
  // For one thread.
  struct Room {
    Room(int64_t rows, int64_t columns, int64_t depth)
        : a(new T[rows * depth]),
          b(new T[columns * depth]),
          sums(new T[rows * columns]) {}
    std::unique_ptr<T[]> a, b, sums;
  };

  static int64_t CountOf(int64_t whole, int64_t part) {
    return (whole + part - 1) / part;
  }

  template <typename Source>
  void RunTiles(const Source& source, int64_t begin, int64_t end) const {
    const int64_t down = CountOf(sizes_.rows, tile_rows_);
    const int64_t across = CountOf(sizes_.columns, tile_columns_);
    Room room(tile_rows_, tile_columns_, std::min(kDepth, sizes_.depth));
    for (int64_t i = begin; i < end; ++i) {
      ProductTile tile;
      tile.batch = i / (down * across);
      tile.row = i / across % down * tile_rows_;
      tile.column = i % across * tile_columns_;
      tile.rows = std::min(tile_rows_, sizes_.rows - tile.row);
      tile.columns = std::min(tile_columns_, sizes_.columns - tile.column);
      std::fill_n(room.sums.get(), tile_rows_ * tile_columns_, T{0});
      for (int64_t k = 0; k < sizes_.depth; k += kDepth)
        AddDepth(source, tile, k, std::min(kDepth, sizes_.depth - k), room);
      source.Finish(tile, room.sums.get(), tile_columns_);
    }
  }

  template <typename Source>
  void AddDepth(const Source& source, const ProductTile& tile, int64_t k,
                int64_t depth, Room& room) const {
    const int64_t height = kernel_.rows, width = kernel_.columns;
    for (int64_t i = 0; i < tile.rows; i += height) {
      source.WriteRows(
          {tile.batch, tile.row + i, std::min(height, tile.rows - i), k, depth},
          height, &room.a[i * depth]);
    }
    for (int64_t j = 0; j < tile.columns; j += width) {
      source.WriteColumns({tile.batch, tile.column + j,
                           std::min(width, tile.columns - j), k, depth},
                          width, &room.b[j * depth]);
    }
    for (int64_t j = 0; j < tile.columns; j += width) {
      for (int64_t i = 0; i < tile.rows; i += height) {
        kernel_.add(&room.a[i * depth], &room.b[j * depth], depth,
                    &room.sums[i * tile_columns_ + j], tile_columns_);
      }
    }
  }

  const ProductSizes sizes_;
  const PanelKernel<T> kernel_;
  int64_t tile_rows_ = 0;
  int64_t tile_columns_ = 0;
  int64_t tiles_ = 0;
  int64_t grain_ = 1;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_TILED_PRODUCT_H_

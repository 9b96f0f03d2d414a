// Generated kernels that only CUDA has, against the interpreter: on a GPU where
// there is one (without one NVRTC must still accept them).

#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/match.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_variant.h"
#include "tests/support/kernel_tolerances.h"
#include "tests/support/nest_case.h"

namespace kiln {
namespace {

// Many values are equal, so that it shows whether their order is kept. On the CPU
// a library sorts.
TEST(CudaKernel, SortsRowsAndKeepsTheOrderOfEquals) {
  for (const auto& [columns, places] : {std::pair<int64_t, int64_t>(1, 0),
                                        {5, 0},
                                        {300, 0},
                                        {301, 0},
                                        {512, 0},
                                        {513, 0},
                                        {514, 0},
                                        {300, 7},
                                        {1034, 7},
                                        {2049, 20},
                                        {5000, 20},
                                        {9000, 600}}) {
    // Each size in a type and an order of its own.
    static constexpr DType kTypes[] = {kF32, kBF16, DType::kInt32,
                                       DType::kUInt8, DType::kFloat16};
    const DType dtype = kTypes[(columns + places) % 5];
    const ReduceOp order = columns % 3 == 0 ? ReduceOp::kMax : ReduceOp::kMin;
    NestCase c;
    c.integer_limit = 100;
    c.special_floats = true;
    const int64_t count = places == 0 ? columns : places;
    const uint32_t i = c.Axis(3), r = c.Axis(columns, true);
    const BufferId x = c.In(dtype, {3, columns});
    const BufferId z = c.Out(DType::kInt64, {3, count});
    ScalarId v = c.Load(x, {A(i), A(r)});
    if (IsHalf(dtype)) v = c.Cast(kF32, v);
    const ScalarId place = c.Sort(order, v, places);
    const ScalarId asked =
        c.Op(ScalarOp::kLt,
             {c.Index(A(r)), c.Constant(DType::kInt64, double(count))});
    c.Store(z, {A(i), A(r)}, place, StoreMode::kSet, asked);
    c.CheckVariants(TargetKind::kCuda, 0);
  }
}

// The backward pass of a layer norm: the rows' gradients, and the weights' as sums
// over rows. Stretches that end within the block's rows, at them, and a single one.
TEST(CudaKernel, SumsColumnsOfStretchesBesideRows) {
  for (const auto& [rows, columns, stretch] :
       {std::tuple<int64_t, int64_t, int64_t>(37, 96, 5),
        {64, 1000, 16},
        {9, 33, 40},
        {130, 512, 100}}) {
    for (const DType dtype : {kF32, kBF16}) {
      NestCase c;
      const uint32_t n = c.Axis(2), i = c.Axis(rows), r = c.Axis(columns, true);
      const DimVector sizes = {2, rows, columns};
      const BufferId x = c.In(dtype, sizes), dy = c.In(dtype, sizes);
      const BufferId w = c.In(dtype, {columns}), m = c.In(kF32, {2, rows});
      const BufferId z = c.Out(dtype, sizes);
      const SymExpr stretches = CeilDiv(2 * rows, stretch);
      const BufferId dw = c.Out(kF32, {stretches, columns});
      const BufferId db = c.Out(kF32, {stretches, columns});
      const DimVector at = {A(n), A(i), A(r)};
      const auto load = [&](BufferId buffer, DimVector index) {
        const ScalarId v = c.Load(buffer, std::move(index));
        return dtype == kF32 ? v : c.Cast(kF32, v);
      };
      const ScalarId g = load(dy, at), v = load(x, at);
      const ScalarId gw = c.Op(ScalarOp::kMul, {g, load(w, {A(r)})});
      const ScalarId sum = c.Reduce(ReduceOp::kSum, gw);
      const ScalarId scaled =
          c.Op(ScalarOp::kDiv, {sum, c.Constant(kF32, double(columns))});
      const ScalarId shift =
          c.Op(ScalarOp::kMul, {scaled, c.Load(m, {A(n), A(i)})});
      const ScalarId dx = c.Op(ScalarOp::kSub, {gw, shift});
      c.Store(z, at, dtype == kF32 ? dx : c.Cast(kBF16, dx));
      c.Sum(dw, A(r), c.Op(ScalarOp::kMul, {g, v}), stretch);
      c.Sum(db, A(r), g, stretch);
      c.CheckVariants(TargetKind::kCuda, dtype == kF32 ? kSums : kBF16Unit);
    }
  }
}

// Blocks that share a row add what comes before them in one order.
TEST(CudaKernel, SharesALongScanAmongBlocks) {
  NestCase c;
  const SymExpr columns = c.Symbol(1555);
  const uint32_t i = c.Axis(2), r = c.Axis(columns, true);
  const BufferId x = c.In(DType::kInt64, {2, columns});
  const BufferId y = c.In(kF32, {2, columns});
  const BufferId z = c.Out(DType::kInt64, {2, columns});
  const BufferId w = c.Out(kF32, {2, columns});
  c.Store(z, {A(i), A(r)}, c.Scan(ReduceOp::kSum, c.Load(x, {A(i), A(r)})));
  c.Store(w, {A(i), A(r)}, c.Scan(ReduceOp::kMin, c.Load(y, {A(i), A(r)})));
  c.CheckVariants(TargetKind::kCuda, 0);
}

// Symbols are s0, s1, ... in a kernel's text: nothing else may be called so.
TEST(CudaKernel, SizesOfScansAndStretchesMayBeSymbols) {
  NestCase scan;
  const SymExpr rows = scan.Symbol(5), columns = scan.Symbol(300);
  const uint32_t i = scan.Axis(rows), r = scan.Axis(columns, true);
  const BufferId x = scan.In(kBF16, {rows, columns});
  const BufferId z = scan.Out(kBF16, {rows, columns});
  const ScalarId v = scan.Cast(kF32, scan.Load(x, {A(i), A(r)}));
  scan.Store(z, {A(i), A(r)}, scan.Cast(kBF16, scan.Scan(ReduceOp::kSum, v)));
  scan.CheckVariants(TargetKind::kCuda, kBF16Unit);

  NestCase sums;
  const SymExpr count = sums.Symbol(70);
  const uint32_t j = sums.Axis(count), c = sums.Axis(256, true);
  const BufferId y = sums.In(kF32, {count, 256});
  const BufferId norms = sums.Out(kF32, {count});
  const BufferId partial = sums.Out(kF32, {CeilDiv(count, 16), 256});
  const ScalarId w = sums.Load(y, {A(j), A(c)});
  sums.Store(norms, {A(j)},
             sums.Reduce(ReduceOp::kSum, sums.Op(ScalarOp::kSquare, {w})));
  sums.Sum(partial, A(c), w, 16);
  sums.CheckVariants(TargetKind::kCuda, kSums);
}

// Each row begins elsewhere in its 16 bytes, whether its length is known or not. A
// value of the columns is read before the sums and after them, and what is summed
// is stored as well.
TEST(CudaKernel, SumsDownColumnsOfOddRows) {
  for (const bool known : {true, false}) {
    NestCase c;
    const auto size = [&](int64_t n) {
      return known ? SymExpr(n) : c.Symbol(n);
    };
    const SymExpr batch = size(2), columns = size(131), rows = size(77);
    const uint32_t i = c.Axis(batch), j = c.Axis(columns);
    const uint32_t r = c.Axis(rows, true);
    const DimVector at = {A(i), A(r), A(j)};
    const BufferId x = c.In(kBF16, {batch, rows, columns});
    const BufferId b = c.In(kF32, {columns});
    const BufferId d = c.Out(kF32, {batch, rows, columns});
    const BufferId z = c.Out(kF32, {batch, columns});
    const ScalarId scale = c.Load(b, {A(j)});
    const ScalarId v =
        c.Op(ScalarOp::kMul, {c.Cast(kF32, c.Load(x, at)), scale});
    c.Store(d, at, v);
    c.Store(z, {A(i), A(j)},
            c.Op(ScalarOp::kAdd, {c.Reduce(ReduceOp::kSum, v), scale}));
    c.CheckVariants(TargetKind::kCuda, kSums);
  }
}

// Each row of either side begins elsewhere in its 16 bytes: rows of known length are
// turned as they are loaded, and rows of unknown length as they are stored.
TEST(CudaKernel, TransposesMatricesOfOddRows) {
  for (const bool known : {true, false}) {
    NestCase c;
    const auto size = [&](int64_t n) {
      return known ? SymExpr(n) : c.Symbol(n);
    };
    const SymExpr batch = size(2), rows = size(101), columns = size(203);
    const uint32_t b = c.Axis(batch), i = c.Axis(rows), j = c.Axis(columns);
    const DimVector at = {A(b), A(i), A(j)}, turned = {A(b), A(j), A(i)};
    const DimVector sizes = {batch, rows, columns};
    const DimVector turned_sizes = {batch, columns, rows};
    const BufferId x = c.In(kBF16, known ? turned_sizes : sizes);
    const BufferId y = c.In(kBF16, sizes);
    const BufferId z = c.Out(kBF16, known ? sizes : turned_sizes);
    const ScalarId sum =
        c.Op(ScalarOp::kAdd, {c.Cast(kF32, c.Load(x, known ? turned : at)),
                              c.Cast(kF32, c.Load(y, at))});
    c.Store(z, known ? at : turned, c.Cast(kBF16, sum));
    c.CheckVariants(TargetKind::kCuda, 0);
  }
}

// A mask keeps a load from what lies behind the buffer, where it would read at a point
// that has none. So of the rows' ends only the elements that exist are loaded.
TEST(CudaKernel, MasksKeepWholeGroupsOfOddRowsInside) {
  const auto expect_parts = [](const NestCase& c) {
    const Target target = *TargetFromName("sm_90");
    const NestCase flat = c.Flat();
    int peeled = 0;
    for (const KernelVariant& variant : flat.Candidates(target)) {
      if (!absl::StrContains(ToText(variant), "vector 8") ||
          !absl::StrContains(ToText(variant), "peel 1")) {
        continue;
      }
      ++peeled;
      const auto source = flat.With(variant).Source(target);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_TRUE(absl::StrContains(source->text, "k_load_part<"))
          << ToText(variant);
    }
    EXPECT_GT(peeled, 0);
  };
  // The eighth row below is aligned alike.
  const auto has_eighth = [](NestCase& c, uint32_t row) {
    return c.Op(ScalarOp::kLt,
                {c.Index(A(row)), c.Constant(DType::kInt64, 69)});
  };
  {
    NestCase c;
    const uint32_t j = c.Axis(131), r = c.Axis(77, true);
    const BufferId x = c.In(kBF16, {77, 131}), y = c.In(kBF16, {77, 131});
    const BufferId z = c.Out(kF32, {131});
    const ScalarId below =
        c.MaskedLoad(x, {A(r) + 8, A(j)}, has_eighth(c, r), 0);
    const ScalarId v =
        c.Op(ScalarOp::kAdd,
             {c.Cast(kF32, below), c.Cast(kF32, c.Load(y, {A(r), A(j)}))});
    c.Store(z, {A(j)}, c.Reduce(ReduceOp::kSum, v));
    expect_parts(c);
    c.CheckVariants(TargetKind::kCuda, kSums);
  }
  {
    NestCase c;
    const uint32_t i = c.Axis(77), j = c.Axis(131);
    const BufferId x = c.In(kBF16, {77, 131}), y = c.In(kBF16, {131, 77});
    const BufferId z = c.Out(kBF16, {77, 131});
    const ScalarId below =
        c.MaskedLoad(x, {A(i) + 8, A(j)}, has_eighth(c, i), -1.5);
    const ScalarId v =
        c.Op(ScalarOp::kAdd,
             {c.Cast(kF32, below), c.Cast(kF32, c.Load(y, {A(j), A(i)}))});
    c.Store(z, {A(i), A(j)}, c.Cast(kBF16, v));
    expect_parts(c);
    c.CheckVariants(TargetKind::kCuda, 0);
  }
}

// Each run of the last axis has a partial group at either end, which needs a place
// of its own.
TEST(CudaKernel, HoldsTheGroupsOfRowsOverTwoAxes) {
  NestCase c;
  const uint32_t i = c.Axis(9), r = c.Axis(3, true), q = c.Axis(77, true);
  const DimVector at = {A(i), A(r), A(q)};
  const BufferId x = c.In(kBF16, {9, 3, 77}), z = c.Out(kF32, {9, 3, 77});
  const ScalarId v = c.Cast(kF32, c.Load(x, at));
  const ScalarId most = c.Reduce(ReduceOp::kMax, v);
  c.Store(z, at, c.Op(ScalarOp::kSub, {v, most}));
  c.CheckVariants(TargetKind::kCuda, 0);
}

// What is summed is the same number in every column, or in every row too: what is
// computed of the sum is one value a lane all the same.
TEST(CudaKernel, SumsDownColumnsThatAreEqual) {
  for (const bool rows_differ : {false, true}) {
    NestCase c;
    const uint32_t i = c.Axis(512), r = c.Axis(700, true);
    const BufferId x = c.In(kF32, {700}), z = c.Out(kF32, {512});
    const ScalarId v = c.Load(x, {rows_differ ? A(r) : SymExpr(0)});
    c.Store(z, {A(i)}, c.Op(ScalarOp::kTanh, {c.Reduce(ReduceOp::kSum, v)}));
    c.CheckVariants(TargetKind::kCuda, kFewRoundings);
  }
}

// Fewer rows than a step has, as many, and more; a result stored beside the sums,
// of a load that no other may pass.
TEST(CudaKernel, SumsColumnsInOneStepAndInSeveral) {
  for (const int64_t rows : {5, 200, 256, 257}) {
    for (const bool stores : {false, true}) {
      NestCase c;
      const uint32_t i = c.Axis(64), r = c.Axis(rows, true);
      const BufferId x = c.In(kF32, {rows, 64}), z = c.Out(kF32, {64});
      ScalarId v = c.Load(x, {A(r), A(i)});
      if (stores) {
        const ScalarId early =
            c.Op(ScalarOp::kLt,
                 {c.Index(A(r)), c.Constant(DType::kInt64, double(rows - 2))});
        v = c.MaskedLoad(x, {A(r) + 2, A(i)}, early, 0.5);
        c.Store(c.Out(kF32, {rows, 64}), {A(r), A(i)},
                c.Op(ScalarOp::kNeg, {v}));
      }
      c.Store(z, {A(i)}, c.Reduce(ReduceOp::kSum, v));
      c.With(CudaColumns{.vector = 4, .across = 8, .down = 64, .unroll = 4})
          .CheckOnCuda(kSums);
    }
  }
}

// Rows that stand in shared memory between passes, aligned and not.
TEST(CudaKernel, StagesLongRowsInSharedMemory) {
  for (const auto& [columns, dtype] :
       {std::pair<int64_t, DType>(16384, kF32), {20001, kBF16}}) {
    NestCase c;
    const uint32_t i = c.Axis(2), r = c.Axis(columns, true);
    const BufferId x = c.In(dtype, {2, columns}), m = c.In(kF32, {2});
    const BufferId z = c.Out(dtype, {2, columns});
    const ScalarId at = c.Load(x, {A(i), A(r)});
    const ScalarId v =
        c.Op(ScalarOp::kMul,
             {dtype == kF32 ? at : c.Cast(kF32, at), c.Load(m, {A(i)})});
    const ScalarId most = c.Reduce(ReduceOp::kMax, v);
    const ScalarId apart = c.Op(ScalarOp::kSub, {v, most});
    const ScalarId sum =
        c.Reduce(ReduceOp::kSum, c.Op(ScalarOp::kExp, {apart}));
    const ScalarId out =
        c.Op(ScalarOp::kSub, {apart, c.Op(ScalarOp::kLog, {sum})});
    c.Store(z, {A(i), A(r)}, dtype == kF32 ? out : c.Cast(dtype, out));
    c.CheckVariants(TargetKind::kCuda, dtype == kF32 ? kSums : kBF16Unit);
  }
}

}  // namespace
}  // namespace kiln

// Generated kernels against the interpreter, one nest a test: on the CPU at
// every level this machine has, and on a GPU where there is one (without one
// NVRTC must still accept them).

#include <gtest/gtest.h>

#include "compiler/config/target.h"
#include "tests/support/kernel_tolerances.h"
#include "tests/support/nest_case.h"

namespace kiln {
namespace {

class Kernel : public testing::TestWithParam<TargetKind> {
 protected:
  static void Check(NestCase& c, double tolerance) {
    c.CheckVariants(GetParam(), tolerance);
  }
};

TEST_P(Kernel, AddsAndAppliesReluWithATail) {
  NestCase c;
  const uint32_t i = c.Axis(1003);
  const BufferId x = c.In(kF32, {1003}), y = c.In(kF32, {1003});
  const BufferId z = c.Out(kF32, {1003});
  const ScalarId sum =
      c.Op(ScalarOp::kAdd, {c.Load(x, {A(i)}), c.Load(y, {A(i)})});
  c.Store(z, {A(i)}, c.Op(ScalarOp::kMaximum, {sum, c.Constant(kF32, 0)}));
  Check(c, 0);
}

TEST_P(Kernel, BroadcastsABiasOverRowsOfBFloat16) {
  NestCase c;
  const uint32_t i = c.Axis(7), j = c.Axis(50);
  const BufferId x = c.In(kBF16, {7, 50}), b = c.In(kF32, {50});
  const BufferId s = c.In(kF32, {7});
  const BufferId z = c.Out(kBF16, {7, 50});
  const ScalarId v =
      c.Op(ScalarOp::kAdd,
           {c.Op(ScalarOp::kMul,
                 {c.Cast(kF32, c.Load(x, {A(i), A(j)})), c.Load(s, {A(i)})}),
            c.Load(b, {A(j)})});
  c.Store(z, {A(i), A(j)}, c.Cast(kBF16, v));
  Check(c, kBF16Rounding);
}

TEST_P(Kernel, HalvesRoundToNearestEven) {
  NestCase c;
  const uint32_t i = c.Axis(517);
  const BufferId x = c.In(DType::kFloat16, {517}), y = c.In(kF32, {517});
  const BufferId z = c.Out(DType::kFloat16, {517}), w = c.Out(kBF16, {517});
  const ScalarId v = c.Op(ScalarOp::kMul,
                          {c.Cast(kF32, c.Load(x, {A(i)})), c.Load(y, {A(i)})});
  c.Store(z, {A(i)}, c.Cast(DType::kFloat16, v));
  c.Store(w, {A(i)}, c.Cast(kBF16, v));
  Check(c, 0);
}

TEST_P(Kernel, DividesByConstantsInOneRounding) {
  for (const double by : {3.0, 768.0, 1024.0, 0.7, 50257.0, 1e30}) {
    NestCase c;
    const uint32_t i = c.Axis(1003);
    const BufferId x = c.In(kF32, {1003}), z = c.Out(kF32, {1003});
    c.Store(z, {A(i)},
            c.Op(ScalarOp::kDiv, {c.Load(x, {A(i)}), c.Constant(kF32, by)}));
    Check(c, 0);
  }
}

TEST_P(Kernel, TransposesInTiles) {
  NestCase c;
  const uint32_t i = c.Axis(70), j = c.Axis(130);
  const BufferId x = c.In(kF32, {70, 130}, {1, 70}), y = c.In(kF32, {70, 130});
  const BufferId z = c.Out(kF32, {70, 130});
  c.Store(
      z, {A(i), A(j)},
      c.Op(ScalarOp::kAdd, {c.Load(x, {A(i), A(j)}), c.Load(y, {A(i), A(j)})}));
  Check(c, 0);
}

TEST_P(Kernel, TransposesOnTheWayOut) {
  NestCase c;
  const uint32_t b = c.Axis(3), i = c.Axis(45), j = c.Axis(66);
  const BufferId x = c.In(kBF16, {3, 45, 66}), y = c.In(kF32, {3, 66, 45});
  const BufferId z = c.Out(kBF16, {3, 66, 45}), w = c.Out(kF32, {3, 45, 66});
  const ScalarId v =
      c.Op(ScalarOp::kAdd, {c.Cast(kF32, c.Load(x, {A(b), A(i), A(j)})),
                            c.Load(y, {A(b), A(j), A(i)})});
  c.Store(z, {A(b), A(j), A(i)}, c.Cast(kBF16, v));
  c.Store(w, {A(b), A(i), A(j)}, v);
  Check(c, 0);
}

TEST_P(Kernel, SizesMayBeSymbols) {
  NestCase c;
  const SymExpr n = c.Symbol(9), d = c.Symbol(33);
  const uint32_t i = c.Axis(n), j = c.Axis(d);
  const BufferId x = c.In(kF32, {n, d}), z = c.Out(kF32, {d, n});
  c.Store(z, {A(j), A(i)}, c.Op(ScalarOp::kNeg, {c.Load(x, {A(i), A(j)})}));
  Check(c, 0);
}

TEST_P(Kernel, MasksLoadsAndCountsIndices) {
  NestCase c;
  const uint32_t i = c.Axis(20), j = c.Axis(37);
  const BufferId x = c.In(kF32, {20, 37}), z = c.Out(kF32, {20, 37});
  const BufferId k = c.Out(DType::kInt64, {20, 37});
  const ScalarId row = c.Index(A(i)), column = c.Index(A(j));
  const ScalarId below = c.Op(ScalarOp::kLe, {column, row});
  const ScalarId shifted = c.MaskedLoad(
      x, {A(i), A(j) + 1},
      c.Op(ScalarOp::kLt, {column, c.Constant(DType::kInt64, 36)}), -1.5);
  c.Store(z, {A(i), A(j)},
          c.Op(ScalarOp::kWhere, {below, shifted, c.Constant(kF32, -2)}));
  c.Store(k, {A(i), A(j)},
          c.Op(ScalarOp::kAdd, {c.Index(FloorDiv(A(j), 3)), column}));
  Check(c, 0);
}

TEST_P(Kernel, GathersRowsOfATable) {
  NestCase c;
  const uint32_t i = c.Axis(11), j = c.Axis(40);
  const BufferId ids = c.In(DType::kInt64, {11}), w = c.In(kF32, {5, 40});
  const BufferId z = c.Out(kF32, {11, 40});
  const ScalarId id = c.Load(ids, {A(i)});
  c.Store(z, {A(i), A(j)}, c.Load(w, {SymExpr::Indirect(id), A(j)}));
  Check(c, 0);
}

TEST_P(Kernel, AddsRowsIntoATable) {
  NestCase c;
  const uint32_t i = c.Axis(30), j = c.Axis(40);
  const BufferId ids = c.In(DType::kInt64, {30}), g = c.In(kF32, {30, 40});
  const BufferId w = c.Out(kF32, {5, 40});
  const ScalarId id = c.Load(ids, {A(i)});
  c.Store(w, {SymExpr::Indirect(id), A(j)}, c.Load(g, {A(i), A(j)}),
          StoreMode::kAtomicAdd);
  Check(c, kFewRoundings * 8);
}

TEST_P(Kernel, ScattersThroughAnIndexAlongTheVector) {
  NestCase c;
  const uint32_t i = c.Axis(100);
  const BufferId ids = c.In(DType::kInt64, {100});
  const BufferId w = c.Out(DType::kInt64, {5});
  const ScalarId id = c.Load(ids, {A(i)});
  c.Store(w, {SymExpr::Indirect(id)}, c.Constant(DType::kInt64, 1),
          StoreMode::kAtomicAdd);
  Check(c, 0);
}

// The order of the updates does not matter.
TEST_P(Kernel, KeepsTheGreatestOfWhatMeets) {
  NestCase c;
  const uint32_t i = c.Axis(30), j = c.Axis(40);
  const BufferId ids = c.In(DType::kInt64, {30});
  const BufferId a = c.In(DType::kInt32, {30, 40});
  const BufferId b = c.In(DType::kInt64, {30, 40});
  const BufferId most = c.Out(DType::kInt32, {5, 40});
  const BufferId wide = c.Out(DType::kInt64, {40});
  const ScalarId id = c.Load(ids, {A(i)});
  c.Store(most, {SymExpr::Indirect(id), A(j)}, c.Load(a, {A(i), A(j)}),
          StoreMode::kAtomicMax);
  c.Store(wide, {A(j)}, c.Load(b, {A(i), A(j)}), StoreMode::kAtomicMax);
  Check(c, 0);
}

TEST_P(Kernel, MultipliesWhatIsThere) {
  NestCase c;
  c.integer_limit = 3;
  const uint32_t i = c.Axis(30), j = c.Axis(40);
  const BufferId ids = c.In(DType::kInt64, {30});
  const ScalarId id = c.Load(ids, {A(i)});
  for (const DType dtype :
       {DType::kInt32, DType::kInt64, kF32, DType::kFloat64}) {
    const BufferId x = c.In(dtype, {30, 40});
    const BufferId y = c.Buffer(BufferKind::kTemporary, dtype, {5, 40});
    c.Store(y, {SymExpr::Indirect(id), A(j)}, c.Load(x, {A(i), A(j)}),
            StoreMode::kAtomicMul);
  }
  Check(c, 1e-5);
}

// Inside: alone, along the vector, counted from the end, and under a mask.
TEST_P(Kernel, LooksAtLoadedIndices) {
  NestCase c;
  const uint32_t i = c.Axis(11), j = c.Axis(40);
  const BufferId ids = c.In(DType::kInt64, {11}), w = c.In(kF32, {5, 5});
  const BufferId columns = c.In(DType::kInt64, {40}), z = c.Out(kF32, {11, 40});
  const ScalarId five = c.Constant(DType::kInt64, 5);
  const ScalarId row = c.Op(ScalarOp::kCheckIndex, {c.Load(ids, {A(i)}), five});
  const ScalarId from_end =
      c.Op(ScalarOp::kSub, {c.Load(columns, {A(j)}), five});
  const ScalarId column = c.Op(ScalarOp::kWrapIndex, {from_end, five});
  const ScalarId first =
      c.Op(ScalarOp::kLt, {c.Index(A(j)), c.Constant(DType::kInt64, 0)});
  const ScalarId unasked =
      c.Op(ScalarOp::kCheckIndex,
           {c.Op(ScalarOp::kAdd, {c.Index(A(j)), five}), five, first});
  c.Store(
      z, {A(i), A(j)},
      c.Op(ScalarOp::kAdd,
           {c.Load(w, {SymExpr::Indirect(row), SymExpr::Indirect(column)}),
            c.Load(w, {SymExpr::Indirect(unasked), SymExpr::Indirect(row)})}));
  Check(c, 0);
}

// On the CPU alone: a GPU ends the process's use of it.
TEST(CpuKernel, TouchesNothingOutsideAndSaysSo) {
  for (const ScalarOp op : {ScalarOp::kCheckIndex, ScalarOp::kWrapIndex}) {
    NestCase c;
    const uint32_t i = c.Axis(1003);
    const BufferId ids = c.In(DType::kInt64, {1003}), w = c.In(kF32, {3});
    const BufferId z = c.Out(kF32, {1003}), sums = c.Out(kF32, {3});
    const ScalarId three = c.Constant(DType::kInt64, 3);
    const ScalarId far = c.Op(
        ScalarOp::kMul, {c.Load(ids, {A(i)}), c.Constant(DType::kInt64, -1e8)});
    const SymExpr at = SymExpr::Indirect(c.Op(op, {far, three}));
    c.Store(z, {A(i)}, c.Load(w, {at}));
    c.Store(sums, {at}, c.Constant(kF32, 1), StoreMode::kAtomicAdd);
    c.CheckOnCpu(0);
  }
}

TEST(CpuKernel, OneIndexOutsideAmongRowsIsFound) {
  NestCase c;
  const uint32_t i = c.Axis(50), j = c.Axis(40);
  const BufferId w = c.In(kF32, {49, 40}), z = c.Out(kF32, {50, 40});
  const ScalarId row = c.Op(ScalarOp::kCheckIndex,
                            {c.Index(A(i)), c.Constant(DType::kInt64, 49)});
  c.Store(z, {A(i), A(j)}, c.Load(w, {SymExpr::Indirect(row), A(j)}));
  c.CheckOnCpu(0);
}

// Of rows so many that variants split them; `most`: what is asserted of each value.
void AssertBelow(NestCase& c, double most) {
  const uint32_t i = c.Axis(9001, true);
  const BufferId x = c.In(kF32, {9001}), z = c.Out(kF32, {});
  const BufferId holds = c.Out(DType::kBool, {});
  c.buffers[holds].assertion = "a \"text\"\n";
  const ScalarId v = c.Load(x, {A(i)});
  const ScalarId below = c.Op(ScalarOp::kLt, {v, c.Constant(kF32, most)});
  c.Store(z, {}, c.Reduce(ReduceOp::kMax, v));
  c.Store(holds, {}, c.Reduce(ReduceOp::kAll, below));
}

TEST_P(Kernel, AssertsWhatAReductionFinds) {
  NestCase c;
  AssertBelow(c, 1e6);
  Check(c, 0);
}

TEST(CpuKernel, SaysWhichAssertionDoesNotHold) {
  NestCase c;
  AssertBelow(c, 0);
  c.CheckOnCpu(0);
}

void Softmax(NestCase& c, DType dtype, int64_t rows, int64_t columns) {
  const uint32_t i = c.Axis(rows), r = c.Axis(columns, true);
  const BufferId x = c.In(dtype, {rows, columns});
  const BufferId z = c.Out(dtype, {rows, columns});
  const ScalarId v = c.Cast(kF32, c.Load(x, {A(i), A(r)}));
  const ScalarId e = c.Op(
      ScalarOp::kExp, {c.Op(ScalarOp::kSub, {v, c.Reduce(ReduceOp::kMax, v)})});
  const ScalarId q = c.Op(ScalarOp::kDiv, {e, c.Reduce(ReduceOp::kSum, e)});
  c.Store(z, {A(i), A(r)}, c.Cast(dtype, q));
}

TEST_P(Kernel, SoftmaxOfRowsTakesThreePasses) {
  NestCase c;
  Softmax(c, kBF16, 9, 77);
  Check(c, kBF16Rounding);
}

TEST_P(Kernel, SoftmaxOfLongRows) {
  NestCase c;
  Softmax(c, kF32, 2, 9001);
  Check(c, kFewRoundings);
}

TEST_P(Kernel, SoftmaxDownColumnsAndBySerialThreads) {
  {
    NestCase c;
    const uint32_t i = c.Axis(3), j = c.Axis(41), r = c.Axis(19, true);
    const BufferId x = c.In(kF32, {3, 19, 41}), z = c.Out(kF32, {3, 19, 41});
    const ScalarId v = c.Load(x, {A(i), A(r), A(j)});
    const ScalarId e =
        c.Op(ScalarOp::kExp,
             {c.Op(ScalarOp::kSub, {v, c.Reduce(ReduceOp::kMax, v)})});
    c.Store(z, {A(i), A(r), A(j)},
            c.Op(ScalarOp::kDiv, {e, c.Reduce(ReduceOp::kSum, e)}));
    Check(c, kFewRoundings);
  }
}

TEST_P(Kernel, SumsAndMeansOverTwoAxesWithAnEpilogue) {
  {
    NestCase c;
    const uint32_t i = c.Axis(6), r = c.Axis(5, true), q = c.Axis(29, true);
    const BufferId x = c.In(kF32, {5, 6, 29}), w = c.In(kF32, {5});
    const BufferId z = c.Out(kF32, {6}), n = c.Out(DType::kInt64, {6});
    const ScalarId v = c.Op(ScalarOp::kMul,
                            {c.Load(x, {A(r), A(i), A(q)}), c.Load(w, {A(r)})});
    const ScalarId sum = c.Reduce(ReduceOp::kSum, v);
    c.Store(z, {A(i)},
            c.Op(ScalarOp::kMul, {sum, c.Constant(kF32, 1.0 / 145)}));
    c.Store(n, {A(i)}, c.Second(c.Reduce(ReduceOp::kArgMax, v)));
    Check(c, kSums);
  }
}

TEST_P(Kernel, ReducesEverythingToOneNumber) {
  {
    NestCase c;
    const uint32_t r = c.Axis(1001, true);
    const BufferId x = c.In(kF32, {1001}), z = c.Out(kF32, {});
    const BufferId any = c.Out(DType::kBool, {}), most = c.Out(kF32, {});
    const ScalarId v = c.Load(x, {A(r)});
    c.Store(z, {}, c.Reduce(ReduceOp::kSum, v));
    c.Store(any, {},
            c.Reduce(ReduceOp::kAny,
                     c.Op(ScalarOp::kGt, {v, c.Constant(kF32, 3.99)})));
    c.Store(most, {}, c.Reduce(ReduceOp::kMin, v));
    Check(c, kSums);
  }
}

TEST_P(Kernel, RunsACumulativeSum) {
  NestCase c;
  const uint32_t i = c.Axis(13), r = c.Axis(21, true);
  const BufferId x = c.In(kF32, {13, 21}), z = c.Out(kF32, {13, 21});
  c.Store(z, {A(i), A(r)}, c.Scan(ReduceOp::kSum, c.Load(x, {A(i), A(r)})));
  Check(c, kSums);
}

// Rows shorter than a warp, of no multiple of a vector, and of several tiles; what
// is scanned is computed, and so is what is stored.
TEST_P(Kernel, RunsSumsAndProductsAlongRows) {
  for (int64_t columns : {5, 77, 1003, 5000}) {
    NestCase c;
    const uint32_t i = c.Axis(7), r = c.Axis(columns, true);
    const BufferId x = c.In(kBF16, {7, columns}), y = c.In(kF32, {7, columns});
    const BufferId z = c.Out(kF32, {7, columns});
    const BufferId most = c.Out(kF32, {7, columns});
    const ScalarId v = c.Cast(kF32, c.Load(x, {A(i), A(r)}));
    const ScalarId w = c.Load(y, {A(i), A(r)});
    const ScalarId sum = c.Scan(ReduceOp::kSum, c.Op(ScalarOp::kMul, {v, w}));
    c.Store(z, {A(i), A(r)}, c.Op(ScalarOp::kSub, {sum, w}));
    c.Store(most, {A(i), A(r)}, c.Scan(ReduceOp::kMax, v));
    Check(c, kSums);
  }
}

TEST_P(Kernel, RunsSumsDownColumns) {
  NestCase c;
  const uint32_t i = c.Axis(2), j = c.Axis(41), r = c.Axis(150, true);
  const BufferId x = c.In(kBF16, {2, 150, 41}), y = c.In(kF32, {41});
  const BufferId z = c.Out(kF32, {2, 150, 41});
  const BufferId least = c.Out(kBF16, {2, 150, 41});
  const ScalarId v = c.Cast(kF32, c.Load(x, {A(i), A(r), A(j)}));
  const ScalarId w = c.Load(y, {A(j)});
  const ScalarId sum = c.Scan(ReduceOp::kSum, c.Op(ScalarOp::kMul, {v, w}));
  c.Store(z, {A(i), A(r), A(j)}, c.Op(ScalarOp::kSub, {sum, v}));
  c.Store(least, {A(i), A(r), A(j)}, c.Cast(kBF16, c.Scan(ReduceOp::kMin, v)));
  Check(c, kSums);
}

TEST_P(Kernel, LayerNormKeepsItsRowStatistics) {
  NestCase c;
  const uint32_t i = c.Axis(5), r = c.Axis(100, true);
  const BufferId x = c.In(kF32, {5, 100}), w = c.In(kF32, {100});
  const BufferId z = c.Out(kF32, {5, 100}), rstd = c.Out(kF32, {5, 1});
  const ScalarId v = c.Load(x, {A(i), A(r)});
  const ScalarId n = c.Constant(kF32, 100);
  const ScalarId mean = c.Op(ScalarOp::kDiv, {c.Reduce(ReduceOp::kSum, v), n});
  const ScalarId d = c.Op(ScalarOp::kSub, {v, mean});
  const ScalarId var =
      c.Op(ScalarOp::kDiv,
           {c.Reduce(ReduceOp::kSum, c.Op(ScalarOp::kSquare, {d})), n});
  const ScalarId scale = c.Op(ScalarOp::kRsqrt, {var});
  c.Store(z, {A(i), A(r)},
          c.Op(ScalarOp::kMul,
               {c.Op(ScalarOp::kMul, {d, scale}), c.Load(w, {A(r)})}));
  c.Store(rstd, {A(i), 0}, scale);
  Check(c, 1e-6);
}

// Four neighbours share a counter: whole rows of them, the end of a row, and
// rows that begin in the middle of one.
TEST_P(Kernel, DropsOutByPhilox) {
  for (int64_t columns : {300, 67, 8}) {
    NestCase c;
    const uint32_t i = c.Axis(5), j = c.Axis(columns);
    const BufferId x = c.In(kF32, {5, columns}), z = c.Out(kF32, {5, columns});
    const BufferId m = c.Out(DType::kBool, {5, columns});
    const SymExpr number = A(i) * SymExpr(columns) + A(j);
    const ScalarId keep = c.Op(
        ScalarOp::kGt,
        {c.Random(RandomNumber(7, 3), c.Index(number)), c.Constant(kF32, 0.1)});
    c.Store(
        z, {A(i), A(j)},
        c.Op(ScalarOp::kMul, {c.Load(x, {A(i), A(j)}), c.Cast(kF32, keep)}));
    c.Store(m, {A(i), A(j)}, keep);
    Check(c, 0);
  }
}

TEST_P(Kernel, IntegersOfAllWidthsWrapAndDivide) {
  for (DType dtype : {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32,
                      DType::kInt64}) {
    NestCase c;
    c.integer_limit = 100;
    const uint32_t i = c.Axis(67);
    const BufferId x = c.In(dtype, {67}), y = c.In(dtype, {67});
    const BufferId z = c.Out(dtype, {67}), w = c.Out(dtype, {67});
    const BufferId f = c.Out(kF32, {67});
    const ScalarId a =
        c.Op(ScalarOp::kSub, {c.Load(x, {A(i)}), c.Constant(dtype, 50)});
    const ScalarId b = c.Load(y, {A(i)});
    c.Store(z, {A(i)}, c.Op(ScalarOp::kMul, {a, b}));
    c.Store(w, {A(i)}, c.Op(ScalarOp::kFloorDiv, {a, b}));
    c.Store(f, {A(i)}, c.Cast(kF32, c.Op(ScalarOp::kRemainder, {a, b})));
    Check(c, 0);
  }
}

// One parameter of an optimizer: p -= rate * g, in place, and its square.
void AddParameter(NestCase& c, BufferId rate, DType dtype, SymExpr size) {
  const uint32_t i = c.Axis(size);
  const BufferId g = c.In(dtype, {size}),
                 p = c.Buffer(BufferKind::kInput, dtype, {size});
  const BufferId s = c.Out(kF32, {size});
  const ScalarId old = c.Cast(kF32, c.Load(p, {A(i)}));
  const ScalarId by = c.Op(
      ScalarOp::kMul, {c.Load(rate, {0}), c.Cast(kF32, c.Load(g, {A(i)}))});
  const ScalarId now = c.Op(ScalarOp::kSub, {old, by});
  c.Store(p, {A(i)}, c.Cast(dtype, now));
  c.Store(s, {A(i)}, c.Op(ScalarOp::kMul, {now, now}));
  c.kernel.variant = CudaPoints{.vector = dtype == kF32 ? 4 : 8};
  c.EndPart();
}

void CheckParts(NestCase& c, TargetKind kind) {
  if (kind == TargetKind::kCpu) {
    c.CheckOnCpu(kFewRoundings);
  } else {
    c.CheckOnCuda(kFewRoundings);
  }
}

TEST_P(Kernel, PartsOfManySizesShareALaunch) {
  NestCase c;
  const BufferId rate = c.In(kF32, {1});
  for (int64_t size : {1, 7, 64, 4096, 4097, 30000})
    AddParameter(c, rate, kF32, size);
  for (int64_t size : {3, 1000, 8200}) AddParameter(c, rate, kBF16, size);
  // None of the blocks is of this one.
  AddParameter(c, rate, kF32, 0);
  CheckParts(c, GetParam());
}

TEST_P(Kernel, PartsMayHaveSymbolsForSizes) {
  NestCase c;
  const BufferId rate = c.In(kF32, {1});
  const SymExpr n = c.Symbol(9), d = c.Symbol(33);
  AddParameter(c, rate, kF32, n * 128);
  AddParameter(c, rate, kF32, 50);
  AddParameter(c, rate, kF32, n * d);
  AddParameter(c, rate, kF32, d);
  CheckParts(c, GetParam());
}

TEST_P(Kernel, PartsMayHaveSeveralAxesOrNone) {
  NestCase c;
  const SymExpr n = c.Symbol(5);
  for (const SymExpr& rows : {SymExpr(3), SymExpr(70), n}) {
    const uint32_t i = c.Axis(rows), j = c.Axis(12);
    const BufferId x = c.In(kF32, {rows, 12}, {24, 1});
    const BufferId b = c.In(kF32, {12}), z = c.Out(kF32, {rows, 12});
    c.Store(z, {A(i), A(j)},
            c.Op(ScalarOp::kAdd, {c.Load(x, {A(i), A(j)}), c.Load(b, {A(j)})}));
    c.kernel.variant = CudaPoints{.vector = 4};
    c.EndPart();
  }
  for (int step = 0; step < 3; ++step) {
    const BufferId t = c.Buffer(BufferKind::kInput, kF32, {1});
    c.Store(t, {0},
            c.Op(ScalarOp::kAdd, {c.Load(t, {0}), c.Constant(kF32, 1)}));
    c.kernel.variant = CudaPoints{};
    c.EndPart();
  }
  CheckParts(c, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cpu, Kernel, testing::Values(TargetKind::kCpu));
INSTANTIATE_TEST_SUITE_P(Cuda, Kernel, testing::Values(TargetKind::kCuda));

}  // namespace
}  // namespace kiln

// Float sums and running sums over many points are as good as their last
// rounding, however the kernel walks them. Every value is near 1000, so that a
// single float32 that takes them all is soon far larger than what it is given,
// and loses part of each.

#include <gtest/gtest.h>

#include <vector>

#include "compiler/config/target.h"
#include "tests/support/kernel_tolerances.h"
#include "tests/support/nest_case.h"

namespace kiln {
namespace {

class LongSums : public testing::TestWithParam<TargetKind> {
 protected:
  static void Check(NestCase& c) { c.CheckVariants(GetParam(), kFewRoundings); }
};

ScalarId NearThousand(NestCase& c, BufferId x, DimVector at) {
  return c.Op(ScalarOp::kAdd,
              {c.Load(x, std::move(at)), c.Constant(kF32, 1000)});
}

// Sums each of `columns` over `reduced`, the columns contiguous.
void SumDown(NestCase& c, int64_t columns, std::vector<SymExpr> reduced) {
  DimVector sizes, at;
  const uint32_t i = c.Axis(columns);
  for (const SymExpr& extent : reduced) {
    sizes.push_back(extent);
    at.push_back(SymExpr::Axis(c.Axis(extent, true)));
  }
  sizes.push_back(columns);
  at.push_back(SymExpr::Axis(i));
  const BufferId x = c.In(kF32, sizes), z = c.Out(kF32, {columns});
  c.Store(z, {SymExpr::Axis(i)},
          c.Reduce(ReduceOp::kSum, NearThousand(c, x, at)));
}

TEST_P(LongSums, DownColumns) {
  NestCase c;
  SumDown(c, 5, {100003});
  Check(c);
}

TEST_P(LongSums, DownColumnsOverTwoAxes) {
  const std::vector<std::vector<SymExpr>> shapes = {
      {30011, 3}, {3, 30011}, {301, 307}};
  for (const auto& reduced : shapes) {
    NestCase c;
    SumDown(c, 3, reduced);
    Check(c);
  }
}

TEST_P(LongSums, DownAsManyRowsAsASymbolSays) {
  NestCase c;
  const SymExpr rows = c.Symbol(70001);
  SumDown(c, 4, {rows});
  Check(c);
}

TEST_P(LongSums, ByOneThreadEach) {
  NestCase c;
  SumDown(c, 3, {40, 2503});
  Check(c);
}

// Rows of a hundred thousand, or as many short ones.
TEST_P(LongSums, AlongRows) {
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 100003}, {30011, 7}, {25, 4099}};
  for (const auto& shape : shapes) {
    NestCase c;
    const uint32_t i = c.Axis(2), r = c.Axis(shape[0], true),
                   q = c.Axis(shape[1], true);
    const BufferId x = c.In(kF32, {shape[0], 2, shape[1]});
    const BufferId z = c.Out(kF32, {2});
    const ScalarId v = NearThousand(
        c, x, {SymExpr::Axis(r), SymExpr::Axis(i), SymExpr::Axis(q)});
    c.Store(z, {SymExpr::Axis(i)}, c.Reduce(ReduceOp::kSum, v));
    Check(c);
  }
}

TEST_P(LongSums, OfEverythingWithoutAColumn) {
  NestCase c;
  const uint32_t r = c.Axis(100003, true);
  const BufferId x = c.In(kF32, {100003}), z = c.Out(kF32, {});
  c.Store(z, {},
          c.Reduce(ReduceOp::kSum, NearThousand(c, x, {SymExpr::Axis(r)})));
  Check(c);
}

TEST_P(LongSums, Running) {
  NestCase c;
  const uint32_t i = c.Axis(3), r = c.Axis(2003, true);
  const DimVector at = {SymExpr::Axis(i), SymExpr::Axis(r)};
  const BufferId x = c.In(kF32, {3, 2003}), z = c.Out(kF32, {3, 2003});
  c.Store(z, at, c.Scan(ReduceOp::kSum, NearThousand(c, x, at)));
  Check(c);
}

TEST_P(LongSums, RunningAlongTheOnlyAxis) {
  NestCase c;
  const DimVector at = {SymExpr::Axis(c.Axis(3001, true))};
  const BufferId x = c.In(kF32, {3001}), z = c.Out(kF32, {3001});
  c.Store(z, at, c.Scan(ReduceOp::kSum, NearThousand(c, x, at)));
  Check(c);
}

INSTANTIATE_TEST_SUITE_P(Cpu, LongSums, testing::Values(TargetKind::kCpu));
INSTANTIATE_TEST_SUITE_P(Cuda, LongSums, testing::Values(TargetKind::kCuda));

}  // namespace
}  // namespace kiln

// Products of matrices by tensor cores: each mapping gives what the interpreter does,
// and NVRTC takes it for each chip.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "tests/support/kernel_tolerances.h"
#include "tests/support/nest_batch.h"
#include "tests/support/nest_case.h"

namespace kiln {
namespace {

struct Shape {
  int64_t batch = 1, rows = 64, columns = 128, depth = 16;
  DType dtype = kBF16;
  bool a_turned = false, b_turned = false;  // memory is [k, m]; [n, k]
  int64_t apart = 0;      // elements between rows of the factors
  bool more = false;      // a bias, an activation and a second result
  bool symbolic = false;  // m and n
};

std::string NameOf(const Shape& s) {
  return absl::StrCat(s.batch, " x ", s.rows, " x ", s.columns, " x ", s.depth,
                      s.a_turned ? ", a turned" : "",
                      s.b_turned ? ", b turned" : "",
                      s.apart > 0 ? ", rows apart" : "", s.more ? ", more" : "",
                      s.symbolic ? ", symbolic" : "");
}

std::vector<Shape> Shapes() {
  return {{},
          {.columns = 256, .depth = 32, .dtype = DType::kFloat16},
          {.a_turned = true, .b_turned = true},
          {.rows = 136, .depth = 32, .b_turned = true},
          {.batch = 3, .rows = 40, .columns = 72, .depth = 32},
          // Each size leaves a rest: of tiles, of vectors, of the sum's steps.
          {.rows = 33, .columns = 31, .depth = 13},
          {.rows = 33, .columns = 31, .depth = 13, .a_turned = true},
          {.rows = 66, .columns = 100, .depth = 20, .b_turned = true},
          {.rows = 8, .columns = 8, .depth = 8, .apart = 8},
          {.rows = 50, .columns = 64, .depth = 24, .apart = 3},
          {.batch = 2, .rows = 64, .columns = 96, .more = true},
          {.rows = 37, .columns = 90, .depth = 7, .more = true},
          {.rows = 70, .columns = 77, .symbolic = true}};
}

NestCase CaseOf(const Shape& s) {
  NestCase c;
  const SymExpr rows = s.symbolic ? c.Symbol(s.rows) : SymExpr(s.rows);
  const SymExpr columns = s.symbolic ? c.Symbol(s.columns) : SymExpr(s.columns);
  const uint32_t b = c.Axis(s.batch), m = c.Axis(rows), n = c.Axis(columns),
                 k = c.Axis(s.depth, true);
  const auto factor = [&](SymExpr down, uint32_t i, SymExpr across,
                          uint32_t j) {
    const SymExpr stride = across + s.apart;
    const BufferId x = c.In(s.dtype, {s.batch, down, across},
                            {down * stride, stride, SymExpr(1)});
    return c.Cast(kF32, c.Load(x, {A(b), A(i), A(j)}));
  };
  const ScalarId x =
      s.a_turned ? factor(s.depth, k, rows, m) : factor(rows, m, s.depth, k);
  const ScalarId y = s.b_turned ? factor(columns, n, s.depth, k)
                                : factor(s.depth, k, columns, n);
  ScalarId sum = c.Reduce(ReduceOp::kSum, c.Op(ScalarOp::kMul, {x, y}));
  const DimVector sizes = {s.batch, rows, columns}, at = {A(b), A(m), A(n)};
  if (s.more) {
    const BufferId bias = c.In(s.dtype, {columns});
    sum = c.Op(ScalarOp::kAdd, {sum, c.Cast(kF32, c.Load(bias, {A(n)}))});
    c.Store(c.Out(kF32, sizes), at, sum);
    sum = c.Op(ScalarOp::kMaximum, {sum, c.Constant(kF32, 0)});
  }
  c.Store(c.Out(s.dtype, sizes), at, c.Cast(s.dtype, sum));
  return c.Flat();
}

// Of the mappings of each shape every `each`-th, from another one on for each.
std::vector<MappedNest> Mapped(const std::vector<Shape>& shapes,
                               const Target& target, size_t each) {
  std::vector<MappedNest> some;
  for (size_t s = 0; s < shapes.size(); ++s) {
    const NestCase c = CaseOf(shapes[s]);
    size_t mappings = 0;
    for (const KernelVariant& variant : c.Candidates(target)) {
      if (!std::holds_alternative<CudaProducts>(variant)) continue;
      if (mappings++ % each != s % each) continue;
      some.push_back({c.With(variant),
                      absl::StrCat(NameOf(shapes[s]), ", ", ToText(variant)),
                      kBF16Unit});
    }
    EXPECT_GE(mappings, 3u) << NameOf(shapes[s]);
  }
  return some;
}

TEST(ProductKernel, GivesWhatTheInterpreterDoesInEachMapping) {
  const Target target = *TargetFromName("sm_90");
  CheckTogether(Mapped(Shapes(), target, 3), target, 2);
}

TEST(ProductKernel, IsBuiltForEachChip) {
  for (const char* name : {"sm_80", "sm_100"}) {
    SCOPED_TRACE(name);
    const Target target = *TargetFromName(name);
    CheckTogether(Mapped(Shapes(), target, 6), target, 2);
  }
}

// Sums are in f32: in bf16 256 and 1 are 256, and 2^-9 more is lost in f16.
TEST(ProductKernel, AddsInF32) {
  for (const DType dtype : {kBF16, DType::kFloat16}) {
    NestCase c;
    const uint32_t m = c.Axis(16), n = c.Axis(32), k = c.Axis(32, true);
    const BufferId a = c.In(dtype, {16, 32}), b = c.In(dtype, {32, 32});
    const ScalarId x = c.Cast(kF32, c.Load(a, {A(m), A(k)}));
    const ScalarId y = c.Cast(kF32, c.Load(b, {A(k), A(n)}));
    c.Store(c.Out(kF32, {16, 32}), {A(m), A(n)},
            c.Reduce(ReduceOp::kSum, c.Op(ScalarOp::kMul, {x, y})));
    c = c.Flat();
    CheckTogether({{c.With(CudaProducts{}), "f32 results", kSums}},
                  *TargetFromName("sm_90"));
  }
}

}  // namespace
}  // namespace kiln

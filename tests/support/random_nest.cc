#include "tests/support/random_nest.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "tests/support/kernel_tolerances.h"
#include "tests/support/random_values.h"

namespace kiln {
namespace {

class Writer : RandomValues {
 public:
  explicit Writer(uint64_t seed) : RandomValues(seed) {}

  RandomNest Write(NestFamily family) {
    switch (family) {
      case NestFamily::kPoints:
        Points();
        break;
      case NestFamily::kTransposed:
        Transposed();
        break;
      case NestFamily::kScatters:
        Scatters();
        break;
      case NestFamily::kRows:
        Rows(
            {1, 3, 7, 19, 32, 77, 100, 128, 300, 1000, 1024, 2500, 4099, 9001});
        break;
      case NestFamily::kLongRows:
        most_rows_ = 2;
        Rows({16384, 16400, 20001, 24576});
        break;
      case NestFamily::kColumns:
        Columns();
        break;
      case NestFamily::kStretches:
        Stretches();
        break;
      case NestFamily::kScans:
        Scans();
        break;
      case NestFamily::kSorts:
        Sorts();
        break;
      case NestFamily::kTallies:
        Tallies();
        break;
      case NestFamily::kCounts:
        Counts();
        break;
      case NestFamily::kParts:
        Parts();
        break;
      case NestFamily::kProducts:
        Products();
        break;
    }
    return std::move(made_);
  }

 private:
  // --- Nests without reductions.

  void PointAxes() {
    for (int rank = static_cast<int>(random_() % 3); rank > 0; --rank)
      AddAxis(Size({1, 2, 3, 5, 8, 16, 31, 33, 64, 70}), false);
    AddAxis(Size({1, 3, 8, 31, 64, 100, 128, 257, 1000, 1024, 4099, 8192}),
            false);
  }

  void Points() {
    PointAxes();
    const Value v = Point();
    StoreAt(AllAxes(), v, FloatType());
    if (Chance(3)) StoreAt(AllAxes(), Join(v, Load(AllAxes())), FloatType());
  }

  void Transposed() {
    if (Chance(2)) AddAxis(Size({1, 2, 3}), false);
    AddAxis(OneOf<int64_t>({16, 17, 32, 33, 48, 64, 70, 128}), false);
    AddAxis(OneOf<int64_t>({16, 20, 32, 45, 64, 66, 96, 130}), false);
    std::vector<uint32_t> turned = AllAxes();
    std::swap(turned[turned.size() - 2], turned.back());
    const bool load = Chance(2);
    Value v = Join(Load(load ? turned : AllAxes()), Load(AllAxes()));
    StoreAt(load ? AllAxes() : turned, Change(v), FloatType());
    if (Chance(3)) StoreAt(AllAxes(), v, kF32);
  }

  void Scatters() {
    constexpr int64_t kTable = 5;  // NestCase draws indices below 5
    PointAxes();
    const uint32_t by = static_cast<uint32_t>(random_() % extents_.size());
    const BufferId ids = Buffer(BufferKind::kInput, DType::kInt64, {by});
    const ScalarId id = made_.nest.Load(ids, {A(by)});
    const Value v = Point();
    // The table has the loaded index in the place of one axis.
    DimVector sizes, at;
    for (const uint32_t axis : AllAxes()) {
      sizes.push_back(axis == by ? SymExpr(kTable) : extents_[axis]);
      at.push_back(axis == by ? SymExpr::Indirect(id) : A(axis));
    }
    const BufferId table = made_.nest.Buffer(BufferKind::kOutput, kF32, sizes);
    made_.nest.Store(table, at, v.id, StoreMode::kAtomicAdd);
    Allow(SumTolerance(sizes_[by]));
    if (Chance(2)) StoreAt(AllAxes(), v, kF32);
  }

  // Pointwise nests with CUDA's points; on a CPU they become its points.
  void Parts() {
    for (int parts = 2 + static_cast<int>(random_() % 4); parts > 0; --parts) {
      extents_.clear();
      sizes_.clear();
      elements_ = 1;
      PointAxes();
      StoreAt(AllAxes(), Point(), FloatType());
      made_.nest.kernel.variant = CudaPoints{};
      made_.nest.EndPart();
    }
  }

  // --- Reductions.

  std::vector<uint32_t> Outer() const {
    std::vector<uint32_t> outer;
    for (const uint32_t axis : AllAxes())
      if (!made_.nest.kernel.nest.axes[axis].reduction) outer.push_back(axis);
    return outer;
  }
  int64_t Reduced() const {
    int64_t points = 1;
    for (const uint32_t axis : AllAxes())
      if (made_.nest.kernel.nest.axes[axis].reduction) points *= sizes_[axis];
    return points;
  }

  // A reduction of `v` and its results, one for each outer point.
  void StoreReduction(Value v) {
    NestCase& c = made_.nest;
    Allow(SumTolerance(Reduced()));
    switch (random_() % 5) {
      case 0:
        StoreAt(Outer(), {c.Reduce(ReduceOp::kMax, v.id), v.bound}, kF32);
        break;
      case 1: {
        const ScalarId large =
            c.Op(ScalarOp::kGt, {v.id, c.Constant(kF32, 3.9)});
        c.Store(Buffer(BufferKind::kOutput, DType::kBool, Outer()), At(Outer()),
                c.Reduce(ReduceOp::kAny, large));
        break;
      }
      case 2: {
        const ScalarId sum = c.Reduce(ReduceOp::kSum, v.id);
        const ScalarId n = c.Constant(kF32, static_cast<double>(Reduced()));
        StoreAt(Outer(), {c.Op(ScalarOp::kDiv, {sum, n}), v.bound}, kF32);
        break;
      }
      default:
        StoreAt(Outer(), {c.Reduce(ReduceOp::kSum, v.id), v.bound}, kF32);
        StoreAt(Outer(), {c.Reduce(ReduceOp::kMin, v.id), v.bound}, kF32);
    }
  }

  // The place of the largest; of loaded values, for others may round to equals.
  void StorePlace() {
    NestCase& c = made_.nest;
    const ReduceOp op = OneOf({ReduceOp::kArgMax, ReduceOp::kArgMin});
    const ScalarId best = c.Reduce(op, Load(AllAxes()).id);
    const ScalarId place = c.Second(best);
    c.Store(Buffer(BufferKind::kOutput, DType::kInt64, Outer()), At(Outer()),
            place);
    StoreAt(Outer(), {best, kInputBound}, kF32);
  }

  // exp(x - max), over their sum; x - mean, over the deviation; or x - mean.
  void StoreNormalized(Value v) {
    NestCase& c = made_.nest;
    Allow(kMeans);
    const ScalarId n = c.Constant(kF32, static_cast<double>(Reduced()));
    const int kind = static_cast<int>(random_() % 3);
    if (kind == 0) {
      const ScalarId most = c.Reduce(ReduceOp::kMax, v.id);
      const ScalarId e =
          c.Op(ScalarOp::kExp, {c.Op(ScalarOp::kSub, {v.id, most})});
      const ScalarId sum = c.Reduce(ReduceOp::kSum, e);
      StoreAt(AllAxes(), {c.Op(ScalarOp::kDiv, {e, sum}), 1}, FloatType());
      if (Chance(2)) StoreAt(Outer(), {most, v.bound}, kF32);
      return;
    }
    const ScalarId mean =
        c.Op(ScalarOp::kDiv, {c.Reduce(ReduceOp::kSum, v.id), n});
    const ScalarId apart = c.Op(ScalarOp::kSub, {v.id, mean});
    if (kind == 1) {
      StoreAt(AllAxes(), {apart, 2 * v.bound}, FloatType());
      return;
    }
    const ScalarId squares =
        c.Reduce(ReduceOp::kSum, c.Op(ScalarOp::kSquare, {apart}));
    // Never of 0: all rows' values may be equal.
    const ScalarId variance =
        c.Op(ScalarOp::kAdd,
             {c.Op(ScalarOp::kDiv, {squares, n}), c.Constant(kF32, 0.25)});
    const ScalarId scale = c.Op(ScalarOp::kRsqrt, {variance});
    StoreAt(AllAxes(), {c.Op(ScalarOp::kMul, {apart, scale}), 2 * v.bound},
            FloatType());
    StoreAt(Outer(), {scale, 2}, kF32);
  }

  void StoreResults() {
    switch (random_() % 4) {
      case 0:
        return StorePlace();
      case 1:
      case 2:
        return StoreReduction(Point());
      default:
        return StoreNormalized(Point());
    }
  }

  void Rows(std::initializer_list<int64_t> lengths) {
    const int64_t length = OneOf(lengths);
    elements_ = length;
    if (most_rows_ == 0 && Chance(3)) AddAxis(Size({1, 2, 3, 5}), false);
    if (!Chance(4)) {
      AddAxis(most_rows_ > 0 ? OneOf<int64_t>({1, most_rows_})
                             : Size({1, 2, 3, 9, 20, 37, 64}),
              false);
    }
    if (most_rows_ == 0 && Chance(4)) AddAxis(Size({1, 3, 5}), true);
    AddAxis(length, true);
    if (most_rows_ > 0) {
      StoreNormalized(Point());
    } else {
      StoreResults();
    }
  }

  // The last outer axis is contiguous, the reduced ones lie before it.
  void Columns() {
    const bool batch = Chance(3);
    if (batch) AddAxis(Size({1, 2, 3}), false);
    AddAxis(Size({1, 3, 8, 19, 41, 64, 100, 257}), false);
    if (Chance(3)) AddAxis(Size({2, 3, 7}), true);
    AddAxis(Size({1, 5, 19, 64, 200, 1000, 5000}), true);
    std::vector<uint32_t> order = Outer();
    const uint32_t last = order.back();
    order.pop_back();
    for (const uint32_t axis : AllAxes())
      if (made_.nest.kernel.nest.axes[axis].reduction) order.push_back(axis);
    order.push_back(last);
    Value v = Load(order);
    if (Chance(2)) v = Join(v, Load(order));
    if (Chance(2)) v = Join(v, Load(Outer()));
    if (Chance(4)) {
      StoreLessMean(v, order);
    } else {
      if (Chance(3)) StoreAt(order, v, FloatType());
      StoreReduction(v);
    }
  }
  // x - mean, where x lies.
  void StoreLessMean(Value v, const std::vector<uint32_t>& order) {
    NestCase& c = made_.nest;
    Allow(kMeans);
    const ScalarId n = c.Constant(kF32, static_cast<double>(Reduced()));
    const ScalarId mean =
        c.Op(ScalarOp::kDiv, {c.Reduce(ReduceOp::kSum, v.id), n});
    StoreAt(order, {c.Op(ScalarOp::kSub, {v.id, mean}), 2 * v.bound},
            FloatType());
  }

  void Stretches() {
    NestCase& c = made_.nest;
    const int64_t columns = OneOf<int64_t>({33, 64, 96, 100, 256, 1000});
    elements_ = columns;
    if (Chance(2)) AddAxis(Size({1, 2, 3}), false);
    AddAxis(Size({1, 9, 37, 64, 200}), false);
    AddAxis(columns, true);
    SymExpr rows = 1;
    for (const uint32_t axis : Outer()) rows = rows * extents_[axis];
    const int64_t stretch = OneOf<int64_t>({1, 3, 5, 16, 40, 100});
    const uint32_t last = static_cast<uint32_t>(extents_.size() - 1);
    const Value v = Join(Load(AllAxes()), Load({last}));
    const Value g = Load(AllAxes());
    StoreLessMean(v, AllAxes());
    for (int sums = 1 + static_cast<int>(random_() % 2); sums > 0; --sums) {
      const BufferId sum =
          c.Out(kF32, {CeilDiv(rows, stretch), extents_[last]});
      c.Sum(sum, A(last), sums == 1 ? g.id : Join(g, v).id, stretch);
    }
    Allow(SumTolerance(stretch));
  }

  void Products() {
    NestCase& c = made_.nest;
    if (Chance(3)) AddAxis(2, false);
    const auto rows = static_cast<uint32_t>(extents_.size());
    AddAxis(OneOf<int64_t>({2, 8, 17, 32, 66, 72}), false);
    AddAxis(OneOf<int64_t>({2, 8, 31, 64, 72, 136}), false);
    const int64_t depth = OneOf<int64_t>({1, 7, 8, 12, 16, 24, 32, 40});
    c.Axis(depth, true);
    extents_.push_back(depth);
    sizes_.push_back(depth);
    const DType dtype = OneOf({kBF16, DType::kFloat16});
    const auto factor = [&](uint32_t own) {
      std::vector<uint32_t> axes = {own, rows + 2};
      if (Chance(2)) std::swap(axes[0], axes[1]);
      if (rows > 0 && !Chance(4)) axes.insert(axes.begin(), 0);
      const BufferId from = Chance(4) ? Padded(dtype, axes)
                                      : Buffer(BufferKind::kInput, dtype, axes);
      return c.Cast(kF32, c.Load(from, At(axes)));
    };
    const ScalarId a = factor(rows), b = factor(rows + 1);
    const ScalarId sum = c.Reduce(ReduceOp::kSum, c.Op(ScalarOp::kMul, {a, b}));
    Value v =
        Small({sum, kInputBound * kInputBound * static_cast<double>(depth)});
    Allow(SumTolerance(depth));
    if (Chance(2))
      v = Join(v, Load(Chance(2) ? Outer() : std::vector<uint32_t>{rows + 1}));
    StoreAt(Outer(), Change(v), FloatType());
    if (Chance(3)) StoreAt(Outer(), v, kF32);
  }

  void Scans() {
    NestCase& c = made_.nest;
    const bool down = Chance(3);
    const int64_t length =
        OneOf<int64_t>({1, 5, 21, 77, 130, 300, 4099, 20001});
    elements_ = length;
    if (Chance(3)) AddAxis(Size({1, 2, 3}), false);
    AddAxis(Size({1, 2, 7, 13, 33}), false);
    AddAxis(length, true);
    std::vector<uint32_t> order = AllAxes();
    if (down) std::swap(order[order.size() - 2], order.back());
    Value v = Load(order);
    if (Chance(2)) v = Join(v, Load(order));
    const ReduceOp op = OneOf(
        {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kLogSumExp});
    const ScalarId running = c.Scan(op, v.id);
    Allow(SumTolerance(Reduced()));
    const ScalarId out =
        Chance(2) ? running : c.Op(ScalarOp::kSub, {running, v.id});
    StoreAt(order, {out, 0}, Chance(4) ? kBF16 : kF32);
    if (Chance(4)) StoreAt(order, {c.Scan(ReduceOp::kMax, v.id), 0}, kF32);
  }

  void Sorts() {
    NestCase& c = made_.nest;
    c.integer_limit = 100;  // many equals, whose order shows
    const int64_t places = OneOf<int64_t>({0, 0, 1, 7, 20});
    const int64_t columns = places == 0
                                ? OneOf<int64_t>({1, 5, 60, 128, 300})
                                : OneOf<int64_t>({20, 100, 300, 2500, 3001});
    AddAxis(OneOf<int64_t>({1, 3}), false);
    c.Axis(columns, true);
    const DType dtype =
        OneOf({kF32, kBF16, DType::kFloat16, DType::kInt32, DType::kInt16,
               DType::kInt8, DType::kUInt8, DType::kBool, DType::kInt64});
    c.special_floats = Chance(2);
    const uint32_t r = 1;
    const BufferId x = c.In(dtype, {extents_[0], columns});
    ScalarId v = c.Load(x, {A(0), A(r)});
    if (IsHalf(dtype)) v = c.Cast(kF32, v);
    const ReduceOp order = OneOf({ReduceOp::kMax, ReduceOp::kMin});
    const ScalarId place = c.Sort(order, v, places);
    const int64_t count = places == 0 ? columns : places;
    const ScalarId asked = c.Op(
        ScalarOp::kLt,
        {c.Index(A(r)), c.Constant(DType::kInt64, static_cast<double>(count))});
    c.Store(c.Out(DType::kInt64, {extents_[0], count}), {A(0), A(r)}, place,
            StoreMode::kSet, asked);
  }

  // Bits of `x` from `shift` on, below `values`, a power of two.
  ScalarId Digit(ScalarId x, int64_t shift, int64_t values) {
    NestCase& c = made_.nest;
    const auto number = [&](int64_t n) {
      return c.Constant(DType::kInt32, static_cast<double>(n));
    };
    return c.Op(
        ScalarOp::kAnd,
        {c.Op(ScalarOp::kShiftRight, {x, number(shift)}), number(values - 1)});
  }

  void Tallies() {
    NestCase& c = made_.nest;
    c.integer_limit = 2000;
    const int64_t values = OneOf<int64_t>({2, 16, 256});
    const int64_t columns = OneOf<int64_t>({1, 60, 128, 700, 2500, 5003});
    AddAxis(OneOf<int64_t>({1, 2}), false);
    c.Axis(columns, true);
    const uint32_t r = 1;
    const DType dtype = OneOf({DType::kInt32, DType::kInt64, DType::kUInt8});
    const BufferId x = c.In(dtype, {extents_[0], columns});
    const ScalarId loaded = c.Load(x, {A(0), A(r)});
    const ScalarId digit = Digit(c.Cast(DType::kInt32, loaded), 0, values);
    const ScalarId before = c.Tally(digit, values);
    c.Store(c.Out(dtype, {extents_[0], values, columns}),
            {A(0), SymExpr::Indirect(digit), SymExpr::Indirect(before)},
            loaded);
    if (Chance(2)) {
      const ScalarId asked =
          c.Op(ScalarOp::kLt, {before, c.Constant(DType::kInt32, 3)});
      c.Store(c.Out(DType::kInt64, {extents_[0], values, 3}),
              {A(0), SymExpr::Indirect(digit), SymExpr::Indirect(before)},
              c.Index(A(r)), StoreMode::kSet, asked);
    }
    if (Chance(2))
      c.Store(c.Out(DType::kInt32, {extents_[0], columns}), {A(0), A(r)},
              before);
  }

  void Counts() {
    NestCase& c = made_.nest;
    c.integer_limit = 30000;
    const int64_t values = OneOf<int64_t>({2, 16, 256});
    const auto digits = 1 + static_cast<int64_t>(random_() % 3);
    if (Chance(2)) AddAxis(Size({1, 2, 5}), false);
    AddAxis(Size({1, 31, 128, 1000, 4099, 20001}), false);
    const ScalarId x = c.Load(
        Buffer(BufferKind::kInput, DType::kInt32, AllAxes()), At(AllAxes()));
    DimVector sizes, at;
    for (size_t a = 0; a + 1 < extents_.size(); ++a) {
      sizes.push_back(extents_[a]);
      at.push_back(A(static_cast<uint32_t>(a)));
    }
    sizes.push_back(digits);
    sizes.push_back(values);
    const BufferId counts = c.Out(DType::kInt32, sizes);
    for (int64_t d = 0; d < digits; ++d) {
      DimVector cell = at;
      cell.push_back(d);
      cell.push_back(SymExpr::Indirect(Digit(x, 5 * d, values)));
      c.Store(counts, cell, c.Constant(DType::kInt32, 1),
              StoreMode::kAtomicAdd);
    }
  }
};

}  // namespace

RandomNest MakeRandomNest(NestFamily family, uint64_t seed) {
  return Writer(seed * 16 + static_cast<uint64_t>(family)).Write(family);
}

}  // namespace kiln

// Random expressions against a plain evaluation of how they were made.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "compiler/sym/sym_simplify.h"
#include "compiler/sym/sym_text.h"

namespace kiln {
namespace {

int64_t FloorDivision(int64_t a, int64_t b) {
  int64_t q = a / b;
  while (q * b > a) --q;
  while ((q + 1) * b <= a) ++q;
  return q;
}

// An expression and its value at `points`, computed beside it.
struct Sample {
  SymExpr e;
  std::vector<int64_t> values;
};

constexpr int64_t kExtents[] = {3, 8, 5};
constexpr int64_t kSymbol = 6;

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {
    for (int64_t a = 0; a < kExtents[0]; ++a) {
      for (int64_t b = 0; b < kExtents[1]; ++b) {
        for (int64_t c = 0; c < kExtents[2]; ++c) points_.push_back({a, b, c});
      }
    }
  }
  const std::vector<std::vector<int64_t>>& points() const { return points_; }
  int Below(int n) { return static_cast<int>(random_() % n); }

  Sample Make(int depth) {
    const int kind = depth == 0 ? Below(3) : Below(11);
    if (kind == 0) return Constant(Below(13) - 3);
    if (kind == 1) return OfAxis(Below(3));
    if (kind == 2) return {SymExpr::Symbol(0), Repeated(kSymbol)};
    const Sample a = Make(depth - 1);
    const bool by_symbol = Below(4) == 0;
    const Sample b = kind <= 5   ? Make(depth - 1)
                     : by_symbol ? Sample{SymExpr::Symbol(0), Repeated(kSymbol)}
                                 : Constant(1 + Below(12));
    switch (kind) {
      case 3:
        return Apply(a.e + b.e, a, b, [](auto x, auto y) { return x + y; });
      case 4:
        return Apply(a.e - b.e, a, b, [](auto x, auto y) { return x - y; });
      case 5:
        return Apply(Min(a.e, b.e), a, b,
                     [](auto x, auto y) { return std::min(x, y); });
      case 6:
        return Apply(Max(a.e, b.e), a, b,
                     [](auto x, auto y) { return std::max(x, y); });
      case 7:
        return Apply(a.e * b.e, a, b, [](auto x, auto y) { return x * y; });
      case 8:
        return Apply(CeilDiv(a.e, b.e), a, b,
                     [](auto x, auto y) { return -FloorDivision(-x, y); });
      case 9:
        return Apply(FloorDiv(a.e, b.e), a, b, FloorDivision);
      default:
        return Apply(Mod(a.e, b.e), a, b, [](auto x, auto y) {
          return x - y * FloorDivision(x, y);
        });
    }
  }

 private:
  std::vector<int64_t> Repeated(int64_t v) {
    return std::vector<int64_t>(points_.size(), v);
  }
  Sample Constant(int64_t v) { return {v, Repeated(v)}; }
  Sample OfAxis(uint32_t axis) {
    Sample s{SymExpr::Axis(axis), {}};
    for (const auto& point : points_) s.values.push_back(point[axis]);
    return s;
  }
  template <typename F>
  Sample Apply(SymExpr e, const Sample& a, const Sample& b, F f) {
    Sample s{std::move(e), {}};
    for (size_t i = 0; i < points_.size(); ++i) {
      s.values.push_back(f(a.values[i], b.values[i]));
    }
    return s;
  }

  std::mt19937 random_;
  std::vector<std::vector<int64_t>> points_;
};

std::vector<int64_t> Evaluated(const SymExpr& e, const Maker& maker) {
  std::vector<int64_t> values;
  for (const auto& point : maker.points()) {
    values.push_back(e.Evaluate([&](Var v) {
      return v.kind == Var::Kind::kSymbol ? kSymbol : point[v.index];
    }));
  }
  return values;
}

TEST(SymProperty, NormalFormSimplifyTextAndBoundsKeepTheValue) {
  ShapeEnv shapes;
  shapes.symbols.push_back({"n", kSymbol, {kSymbol - 2, kSymbol + 2}, {}});
  const std::vector<SymExpr> extents = {kExtents[0], kExtents[1], kExtents[2]};
  const SymBounds bounds{shapes, extents};
  Maker maker(20260131);
  for (int round = 0; round < 20000; ++round) {
    const Sample s = maker.Make(1 + maker.Below(5));
    const std::string text = s.e.ToString();
    ASSERT_EQ(Evaluated(s.e, maker), s.values) << text;

    const SymExpr simple = Simplify(s.e, bounds);
    ASSERT_EQ(Evaluated(simple, maker), s.values)
        << text << " became " << simple.ToString();

    const auto parsed = ParseSymExpr(text, DefaultVarOfName);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    ASSERT_EQ(*parsed, s.e) << text << " was read as " << parsed->ToString();

    const ValueRange range = RangeWithin(s.e, bounds);
    for (const int64_t v : s.values) {
      ASSERT_TRUE(range.Contains(v)) << text << " at " << v;
    }
    if (ProveNonNegative(s.e, bounds)) {
      for (const int64_t v : s.values) ASSERT_GE(v, 0) << text;
    }
  }
}

TEST(SymProperty, SubstitutionIsEvaluationInTwoSteps) {
  Maker maker(7);
  for (int round = 0; round < 3000; ++round) {
    const Sample s = maker.Make(4);
    const SymExpr moved = s.e.Substitute([](Var v) {
      return v.kind == Var::Kind::kSymbol ? SymExpr(kSymbol) : SymExpr::Of(v);
    });
    ASSERT_EQ(Evaluated(moved, maker), s.values) << s.e.ToString();
  }
}

}  // namespace
}  // namespace kiln

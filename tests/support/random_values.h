#ifndef KILN_TESTS_SUPPORT_RANDOM_VALUES_H_
#define KILN_TESTS_SUPPORT_RANDOM_VALUES_H_

// What random nests are made of: axes, buffers over them, and float32 values whose
// bound is known.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "tests/support/kernel_tolerances.h"
#include "tests/support/random_nest.h"

namespace kiln {

// Makes one nest. The families (random_nest.cc) derive from it.
class RandomValues {
 protected:
  // Values are kept within these, so that a sum's rounding stays far below a term.
  static constexpr double kInputBound = 4;
  static constexpr double kLargest = 8;
  // Of what a sum over its number of terms decides: a few units of 8.
  static constexpr double kMeans = 2e-5;
  // Elements of the largest buffer, about.
  static constexpr int64_t kMostElements = 30000;

  explicit RandomValues(uint64_t seed) : random_(seed) {}

  // One in `n`.
  bool Chance(int n) { return random_() % static_cast<uint64_t>(n) == 0; }
  template <typename T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[random_() % choices.size()];
  }

  // --- Axes. Buffers are sized by `extents_`, which may be symbols.

  void AddAxis(int64_t size, bool reduced) {
    const SymExpr extent = Chance(6) ? made_.nest.Symbol(size) : SymExpr(size);
    made_.nest.Axis(extent, reduced);
    extents_.push_back(extent);
    sizes_.push_back(size);
    elements_ *= size;
  }
  // A size out of `choices` for which buffers do not grow too large.
  int64_t Size(std::initializer_list<int64_t> choices) {
    int64_t size = OneOf(choices);
    while (size > 1 && size * elements_ > kMostElements && most_rows_ == 0)
      size /= 2;
    return size;
  }
  std::vector<uint32_t> AllAxes() const {
    std::vector<uint32_t> axes;
    for (uint32_t a = 0; a < extents_.size(); ++a) axes.push_back(a);
    return axes;
  }

  // --- Values: float32 numbers with a bound.

  struct Value {
    ScalarId id;
    double bound;
  };

  DType FloatType() { return OneOf({kF32, kF32, kBF16, DType::kFloat16}); }

  // Where an element of a buffer over `axes` stands.
  DimVector At(const std::vector<uint32_t>& axes) const {
    DimVector at;
    for (const uint32_t axis : axes) at.push_back(A(axis));
    return at;
  }
  BufferId Buffer(BufferKind kind, DType dtype,
                  const std::vector<uint32_t>& axes) {
    DimVector sizes;
    for (const uint32_t axis : axes) sizes.push_back(extents_[axis]);
    return made_.nest.Buffer(kind, dtype, sizes);
  }
  // Rows that are further apart than they are long.
  BufferId Padded(DType dtype, const std::vector<uint32_t>& axes);

  // Of a buffer of its own, now and then of padded rows or the next element.
  Value Load(const std::vector<uint32_t>& axes);
  // Of some of the axes, the others being broadcast.
  Value LoadBroadcast() {
    std::vector<uint32_t> axes;
    for (const uint32_t axis : AllAxes())
      if (Chance(2)) axes.push_back(axis);
    return Load(axes);
  }

  // Kept small by a power of two, which rounds nothing.
  Value Small(Value v) {
    while (v.bound > kLargest) {
      const ScalarId half = made_.nest.Constant(kF32, 0.5);
      v = {made_.nest.Op(ScalarOp::kMul, {v.id, half}), v.bound / 2};
    }
    return v;
  }

  Value Join(Value a, Value b);

  Value Change(Value v);

  // A value at every point, of one to three loads.
  Value Point() {
    Value v = Load(AllAxes());
    for (int more = static_cast<int>(random_() % 3); more > 0; --more)
      v = Join(v, Chance(2) ? LoadBroadcast() : Load(AllAxes()));
    return Change(v);
  }

  // Results may be this far off as well.
  void Allow(double tolerance) {
    made_.tolerance = std::max(made_.tolerance, tolerance);
  }

  void StoreAt(const std::vector<uint32_t>& axes, Value v, DType dtype);

  // Of the sum of `terms` values of at most kLargest, added in any order: a walk of
  // roundings, each half a unit of a partial sum that walks as well.
  static double SumTolerance(int64_t terms) {
    return kMeans + kLargest * static_cast<double>(terms) * 1.2e-7;
  }

  std::mt19937_64 random_;
  RandomNest made_;
  std::vector<SymExpr> extents_;  // one an axis
  std::vector<int64_t> sizes_;    // their values
  int64_t elements_ = 1;
  int64_t most_rows_ = 0;  // 0: as many as fit
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RANDOM_VALUES_H_

#include "compiler/loop/exact_sums.h"

#include <cmath>

#include "proto/base/status.h"

namespace kiln {

namespace {

// The bits of an update in units. An i64 sum has as many bits left for the number of
// updates.
constexpr int kUnitBits = 31;
// What a positive and what a negative infinity add to a sum that counts them.
constexpr int64_t kPositive = 1;
constexpr int64_t kNegative = int64_t{1} << 32;
// The format of a float type.
struct Format {
  DType bits;    // an integer of its size
  int mantissa;  // bits
  int special;   // the exponent of infinities and NaN
  int bias;
};
constexpr Format kSingle = {DType::kInt32, 23, 255, 127};
constexpr Format kDouble = {DType::kInt64, 52, 2047, 1023};
Format FormatOf(DType dtype) {
  return dtype == DType::kFloat32 ? kSingle : kDouble;
}

// The exponent field of an element's largest magnitude. It is raised to the least number
// for which the units, and their reciprocal, are normal float64.
struct Exponent {
  ScalarId field;
  ScalarId special;  // bool: whether the element gets an infinity or a NaN
};
Exponent ExponentAt(NestWriter& nest, const ExactSums& sums,
                    const DimVector& at) {
  BodyBuilder& b = nest.body;
  const Format format = FormatOf(sums.dtype);
  const ScalarId bits =
      b.Cast(DType::kInt64, b.Load(sums.largest, format.bits, at));
  const ScalarId field =
      b.Op(ScalarOp::kShiftRight, bits, b.Int(DType::kInt64, format.mantissa));
  const int64_t least = format.bits == DType::kInt32 ? 1 : 2 * kUnitBits + 2;
  return {b.Op(ScalarOp::kMaximum, field, b.Int(DType::kInt64, least)),
          b.Op(ScalarOp::kEq, field, b.Int(DType::kInt64, format.special))};
}

// 2^(plus + sign * (field - bias)) as a float64.
ScalarId Power(BodyBuilder& b, ScalarId field, int sign, int plus, int bias) {
  const ScalarId base = b.Int(DType::kInt64, kDouble.bias + plus - sign * bias);
  const ScalarId exponent =
      b.Op(sign > 0 ? ScalarOp::kAdd : ScalarOp::kSub, base, field);
  return b.Bitcast(DType::kFloat64,
                   b.Op(ScalarOp::kShiftLeft, exponent,
                        b.Int(DType::kInt64, kDouble.mantissa)));
}

// An update in units of its element; with `part` 1, its remainder in the smaller units.
ScalarId UnitsOf(NestWriter& nest, const ExactSums& sums, const Update& update,
                 int part) {
  BodyBuilder& b = nest.body;
  const Exponent e = ExponentAt(nest, sums, update.index);
  const ScalarId value = b.Cast(DType::kFloat64, update.value);
  // A magnitude is below 2^(field - bias + 1).
  const ScalarId scaled =
      b.Op(ScalarOp::kMul, value,
           Power(b, e.field, -1, kUnitBits - 1, FormatOf(sums.dtype).bias));
  ScalarId units = b.Op(ScalarOp::kRound, scaled);
  if (part == 1) {
    const ScalarId rest = b.Op(ScalarOp::kSub, scaled, units);
    units =
        b.Op(ScalarOp::kRound,
             b.Op(ScalarOp::kMul, rest,
                  b.Float(DType::kFloat64, double(int64_t{1} << kUnitBits))));
  }
  const ScalarId zero = b.Float(DType::kFloat64, 0);
  const ScalarId finite =
      b.Cast(DType::kInt64, b.Where(e.special, zero, units));
  // If an update is an infinity or a NaN, only such updates matter.
  const ScalarId nan = b.Op(ScalarOp::kIsNan, value);
  const ScalarId infinite = b.Op(ScalarOp::kIsInf, value);
  const auto counted = [&](ScalarId when, int64_t count) {
    return b.Where(when, b.Int(DType::kInt64, count), b.Int(DType::kInt64, 0));
  };
  const ScalarId above = b.Op(ScalarOp::kGt, value, zero);
  const ScalarId below = b.Op(ScalarOp::kLt, value, zero);
  const ScalarId positive = b.Op(ScalarOp::kAnd, infinite, above);
  const ScalarId negative = b.Op(ScalarOp::kAnd, infinite, below);
  const ScalarId special = b.Op(
      ScalarOp::kAdd, counted(b.Op(ScalarOp::kOr, nan, positive), kPositive),
      counted(b.Op(ScalarOp::kOr, nan, negative), kNegative));
  return b.Where(e.special, special, finite);
}

}  // namespace

absl::StatusOr<ExactSums> AddExactly(NodeLowering& n, WriteUpdate write) {
  ExactSums sums;
  sums.dtype = ComputeType(n.result_meta().dtype);
  const Format format = FormatOf(sums.dtype);
  sums.largest = FilledCells(n, format.bits, Number{.i = 0});
  RETURN_IF_ERROR(ApplyUpdates(n, write, sums.largest, StoreMode::kAtomicMax,
                               [&](NestWriter& nest, const Update& update) {
                                 return nest.body.Bitcast(
                                     format.bits, nest.body.Op(ScalarOp::kAbs,
                                                               update.value));
                               }));
  const int parts = sums.dtype == DType::kFloat64 ? 2 : 1;
  for (int part = 0; part < parts; ++part) {
    sums.sums.push_back(FilledCells(n, DType::kInt64, Number{.i = 0}));
    RETURN_IF_ERROR(ApplyUpdates(n, write, sums.sums.back(),
                                 StoreMode::kAtomicAdd,
                                 [&](NestWriter& nest, const Update& update) {
                                   return UnitsOf(nest, sums, update, part);
                                 }));
  }
  return sums;
}

ScalarId ReadSum(NestWriter& nest, const ExactSums& sums, const DimVector& at) {
  BodyBuilder& b = nest.body;
  const Exponent e = ExponentAt(nest, sums, at);
  const int bias = FormatOf(sums.dtype).bias;
  const ScalarId units = b.Load(sums.sums[0], DType::kInt64, at);
  ScalarId sum = b.Op(ScalarOp::kMul, b.Cast(DType::kFloat64, units),
                      Power(b, e.field, 1, 1 - kUnitBits, bias));
  if (sums.sums.size() > 1) {
    const ScalarId rest =
        b.Cast(DType::kFloat64, b.Load(sums.sums[1], DType::kInt64, at));
    sum = b.Op(ScalarOp::kAdd, sum,
               b.Op(ScalarOp::kMul, rest,
                    Power(b, e.field, 1, 1 - 2 * kUnitBits, bias)));
  }
  const ScalarId none = b.Int(DType::kInt64, 0);
  const ScalarId positive = b.Op(
      ScalarOp::kNe,
      b.Op(ScalarOp::kAnd, units, b.Int(DType::kInt64, kNegative - 1)), none);
  const ScalarId negative =
      b.Op(ScalarOp::kNe,
           b.Op(ScalarOp::kShiftRight, units, b.Int(DType::kInt64, 32)), none);
  const ScalarId infinity = b.Float(DType::kFloat64, HUGE_VAL);
  const ScalarId minus = b.Float(DType::kFloat64, -HUGE_VAL);
  const ScalarId nan = b.Float(DType::kFloat64, NAN);
  return b.Where(e.special,
                 b.Where(positive, b.Where(negative, nan, infinity), minus),
                 sum);
}

}  // namespace kiln

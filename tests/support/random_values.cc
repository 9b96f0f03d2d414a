#include "tests/support/random_values.h"

namespace kiln {

BufferId RandomValues::Padded(DType dtype, const std::vector<uint32_t>& axes) {
  DimVector sizes, strides(axes.size());
  SymExpr stride = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    strides[d] = stride;
    const SymExpr& extent = extents_[axes[d]];
    stride = stride * (d + 1 == axes.size() ? extent + 3 : extent);
  }
  for (const uint32_t axis : axes) sizes.push_back(extents_[axis]);
  return made_.nest.Buffer(BufferKind::kInput, dtype, sizes, strides);
}

RandomValues::Value RandomValues::Load(const std::vector<uint32_t>& axes) {
  const DType dtype = FloatType();
  const BufferId buffer = axes.size() > 1 && Chance(6)
                              ? Padded(dtype, axes)
                              : Buffer(BufferKind::kInput, dtype, axes);
  ScalarId id;
  if (!axes.empty() && Chance(8)) {
    // The next element; nothing behind the last one.
    const uint32_t last = axes.back();
    DimVector at = At(axes);
    at.back() = at.back() + 1;
    const ScalarId inside = made_.nest.Op(
        ScalarOp::kLt,
        {made_.nest.Index(A(last)), made_.nest.Index(extents_[last] - 1)});
    id = made_.nest.MaskedLoad(buffer, at, inside, -1.5);
  } else {
    id = made_.nest.Load(buffer, At(axes));
  }
  return {dtype == kF32 ? id : made_.nest.Cast(kF32, id), kInputBound};
}

RandomValues::Value RandomValues::Join(Value a, Value b) {
  NestCase& c = made_.nest;
  switch (random_() % 6) {
    case 0:
      return Small({c.Op(ScalarOp::kAdd, {a.id, b.id}), a.bound + b.bound});
    case 1:
      return Small({c.Op(ScalarOp::kSub, {a.id, b.id}), a.bound + b.bound});
    case 2:
      return Small({c.Op(ScalarOp::kMul, {a.id, b.id}), a.bound * b.bound});
    case 3:
      return {c.Op(ScalarOp::kMaximum, {a.id, b.id}),
              std::max(a.bound, b.bound)};
    case 4:
      return {c.Op(ScalarOp::kMinimum, {a.id, b.id}),
              std::max(a.bound, b.bound)};
    default:
      return {c.Op(ScalarOp::kWhere,
                   {c.Op(ScalarOp::kLt, {a.id, b.id}), b.id, a.id}),
              std::max(a.bound, b.bound)};
  }
}

RandomValues::Value RandomValues::Change(Value v) {
  NestCase& c = made_.nest;
  switch (random_() % 6) {
    case 0:
      return {c.Op(ScalarOp::kNeg, {v.id}), v.bound};
    case 1:
      return {c.Op(ScalarOp::kAbs, {v.id}), v.bound};
    case 2:
      Allow(8 * kFewRoundings);
      return {c.Op(ScalarOp::kTanh, {v.id}), 1};
    case 3:
      Allow(8 * kFewRoundings);
      return {c.Op(ScalarOp::kSigmoid, {v.id}), 1};
    default:
      return v;
  }
}

void RandomValues::StoreAt(const std::vector<uint32_t>& axes, Value v,
                           DType dtype) {
  if (dtype != kF32) {
    v.id = made_.nest.Cast(dtype, v.id);
    Allow(kBF16Unit);
  }
  made_.nest.Store(Buffer(BufferKind::kOutput, dtype, axes), At(axes), v.id);
}

}  // namespace kiln

#include "compiler/loop/ordered_keys.h"

#include <cmath>
#include <limits>

namespace kiln {

OrderedKeys::OrderedKeys(DType type, bool least)
    : type_(type),
      least_(least),
      // i32 needs a wider key, because it has the value that would be none().
      key_(type == DType::kFloat32 ? DType::kInt32 : DType::kInt64) {}

int64_t OrderedKeys::none() const {
  return key_ == DType::kInt32 ? std::numeric_limits<int32_t>::min()
                               : std::numeric_limits<int64_t>::min();
}

int64_t OrderedKeys::Most() const {
  return key_ == DType::kInt32 ? std::numeric_limits<int32_t>::max()
                               : std::numeric_limits<int64_t>::max();
}

ScalarId OrderedKeys::KeyOf(BodyBuilder& b, ScalarId value) const {
  if (!IsFloat(type_)) {
    const ScalarId key = b.Cast(key_, value);
    return least_ ? b.Op(ScalarOp::kNot, key) : key;
  }
  const ScalarId order = Flipped(b, b.Bitcast(key_, value));
  return b.Where(b.Op(ScalarOp::kIsNan, value), b.Int(key_, Most()),
                 least_ ? b.Op(ScalarOp::kNot, order) : order);
}

ScalarId OrderedKeys::ValueOf(BodyBuilder& b, ScalarId key) const {
  const ScalarId order = least_ ? b.Op(ScalarOp::kNot, key) : key;
  if (!IsFloat(type_)) return b.Cast(type_, order);
  return b.Where(b.Op(ScalarOp::kEq, key, b.Int(key_, Most())),
                 b.Float(type_, NAN), b.Bitcast(type_, Flipped(b, order)));
}

ScalarId OrderedKeys::Flipped(BodyBuilder& b, ScalarId bits) const {
  return b.Where(b.Op(ScalarOp::kLt, bits, b.Int(key_, 0)),
                 b.Op(ScalarOp::kXor, bits, b.Int(key_, Most())), bits);
}

}  // namespace kiln

#ifndef KILN_COMPILER_LOOP_ORDERED_KEYS_H_
#define KILN_COMPILER_LOOP_ORDERED_KEYS_H_

#include "compiler/loop/body_builder.h"

namespace kiln {

// Maps values to integers, of which the greatest wins: that of the largest value, or
// with `least` that of the least. NaN wins in both. No value maps to the least integer.
class OrderedKeys {
 public:
  OrderedKeys(DType type, bool least);

  DType key() const { return key_; }
  int64_t none() const;
  ScalarId KeyOf(BodyBuilder& b, ScalarId value) const;
  ScalarId ValueOf(BodyBuilder& b, ScalarId key) const;

 private:
  int64_t Most() const;
  // Bits of a negative float grow as it falls.
  ScalarId Flipped(BodyBuilder& b, ScalarId bits) const;

  const DType type_;
  const bool least_;
  const DType key_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_ORDERED_KEYS_H_

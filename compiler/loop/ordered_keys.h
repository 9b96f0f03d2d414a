#ifndef KILN_COMPILER_LOOP_ORDERED_KEYS_H_
#define KILN_COMPILER_LOOP_ORDERED_KEYS_H_

#include "compiler/loop/body_builder.h"

namespace kiln {

// Maps values to integer keys. The largest key is that of the largest value or, with
// `least`, of the smallest value; NaN has a larger key than any number. Only an
// i64 can have the key none().
class OrderedKeys {
 public:
  OrderedKeys(DType type, bool least);

  DType key() const { return key_; }
  int64_t none() const;
  ScalarId KeyOf(BodyBuilder& b, ScalarId value) const;
  ScalarId ValueOf(BodyBuilder& b, ScalarId key) const;

 private:
  int64_t Most() const;
  // The bits of a negative float grow as its value falls, so they are inverted.
  ScalarId Flipped(BodyBuilder& b, ScalarId bits) const;

  const DType type_;
  const bool least_;
  const DType key_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_ORDERED_KEYS_H_

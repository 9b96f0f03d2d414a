#include "compiler/graph/type_promotion.h"

#include <algorithm>

namespace kiln {
namespace {

int Category(DType d) { return d == DType::kBool ? 0 : (IsFloat(d) ? 2 : 1); }

std::optional<DType> Join(std::optional<DType> a, DType b) {
  return a.has_value() ? PromoteTypes(*a, b) : b;
}

// `lower` counts only when its category is above.
std::optional<DType> Combine(std::optional<DType> higher,
                             std::optional<DType> lower) {
  if (!higher.has_value()) return lower;
  if (!lower.has_value() || Category(*lower) <= Category(*higher)) {
    return higher;
  }
  return PromoteTypes(*higher, *lower);
}

}  // namespace

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (Category(a) != Category(b)) return Category(a) > Category(b) ? a : b;
  if (IsFloat(a)) {
    if (IsHalf(a) && IsHalf(b)) return DType::kFloat32;
    return std::max(a, b);
  }
  // u8 fits in every signed type but i8.
  if (std::min(a, b) == DType::kUInt8 && std::max(a, b) == DType::kInt8) {
    return DType::kInt16;
  }
  return std::max(a, b);
}

void TypePromotion::AddTensor(const TensorMeta& meta) {
  std::optional<DType>& slot = meta.rank() > 0 ? with_dims_ : rank_zero_;
  slot = Join(slot, meta.dtype);
}

void TypePromotion::AddNumber(const Argument& number) {
  if (std::holds_alternative<bool>(number.v)) {
    numbers_ = Join(numbers_, DType::kBool);
  } else if (std::holds_alternative<double>(number.v)) {
    numbers_ = Join(numbers_, DType::kFloat32);
  } else {
    numbers_ = Join(numbers_, DType::kInt64);
  }
}

void TypePromotion::Add(
    const Argument& arg,
    absl::FunctionRef<const TensorMeta&(const Argument&)> meta_of) {
  if (arg.is_none()) return;
  if (arg.is_value()) {
    AddTensor(meta_of(arg));
  } else {
    AddNumber(arg);
  }
}

DType TypePromotion::Result() const {
  return Combine(with_dims_, Combine(rank_zero_, numbers_))
      .value_or(DType::kBool);
}

DType TypePromotion::FloatResult() const {
  const DType result = Result();
  return IsFloat(result) ? result : DType::kFloat32;
}

}  // namespace kiln

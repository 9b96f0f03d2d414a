// Three operands or more, broadcast: a choice, a clamp, a blend.

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/reference/pointwise.h"
#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

// The result's element k is `yes` or `no`'s.
RefResults Choose(RefCall& call, const Elements& condition, const Elements& yes,
                  const Elements& no) {
  Elements y = yes.Like(yes.sizes);
  for (int64_t k = 0; k < y.count(); ++k) {
    const Elements& from = condition.B(k) ? yes : no;
    y.Take(k, from, k);
  }
  return {call.Make(0, y)};
}

RefResults Where(RefCall& call) {
  std::vector<Elements> sides = LoadTogether(call, {"self", "other"});
  const Elements condition = call.Load("condition");
  const Sizes sizes = BroadcastSizes(condition.sizes, sides[0].sizes);
  return Choose(call, condition.Broadcast(sizes), sides[0].Broadcast(sizes),
                sides[1].Broadcast(sizes));
}

RefResults MaskedFill(RefCall& call) {
  std::vector<Elements> sides = LoadTogether(call, {"self", "value"});
  const Elements mask = call.Load("mask");
  const Sizes sizes = BroadcastSizes(mask.sizes, sides[0].sizes);
  return Choose(call, mask.Broadcast(sizes), sides[1].Broadcast(sizes),
                sides[0].Broadcast(sizes));
}

template <typename T>
T Clamped(T x, const T* low, const T* high) {
  if (x != x) return x;
  if (low != nullptr) x = *low != *low ? *low : std::max(x, *low);
  if (high != nullptr) x = *high != *high ? *high : std::min(x, *high);
  return x;
}

// Names of the bounds; "" for none.
RefResults ClampBetween(RefCall& call, absl::string_view min,
                        absl::string_view max) {
  std::vector<absl::string_view> names = {"self"};
  const bool has_min = !min.empty() && call.Has(min);
  const bool has_max = !max.empty() && call.Has(max);
  if (has_min) names.push_back(min);
  if (has_max) names.push_back(max);
  std::vector<Elements> in = LoadTogether(call, names);
  Elements& x = in[0];
  const Elements* low = has_min ? &in[1] : nullptr;
  const Elements* high = has_max ? &in.back() : nullptr;
  for (size_t k = 0; k < x.f.size(); ++k) {
    x.f[k] = Clamped(x.f[k], low == nullptr ? nullptr : &low->f[k],
                     high == nullptr ? nullptr : &high->f[k]);
  }
  for (size_t k = 0; k < x.i.size(); ++k) {
    x.i[k] = Clamped(x.i[k], low == nullptr ? nullptr : &low->i[k],
                     high == nullptr ? nullptr : &high->i[k]);
  }
  return {call.Make(0, x)};
}
RefResults Clamp(RefCall& call) { return ClampBetween(call, "min", "max"); }
RefResults ClampMin(RefCall& call) { return ClampBetween(call, "min", ""); }
RefResults ClampMax(RefCall& call) { return ClampBetween(call, "", "max"); }

// self + value * fn(tensor1, tensor2)
template <auto fn>
RefResults AddCombined(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "tensor1", "tensor2"});
  const RefNumber value = call.Number("value");
  Elements& x = in[0];
  for (size_t k = 0; k < x.f.size(); ++k) {
    x.f[k] += value.F() * fn(in[1].f[k], in[2].f[k]);
  }
  for (size_t k = 0; k < x.i.size(); ++k) {
    x.i[k] += value.i * fn(in[1].i[k], in[2].i[k]);
  }
  return {call.Make(0, x)};
}

RefResults Fma(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"a", "b", "c"});
  Elements& x = in[0];
  for (size_t k = 0; k < x.f.size(); ++k)
    x.f[k] = std::fma(x.f[k], in[1].f[k], in[2].f[k]);
  for (size_t k = 0; k < x.i.size(); ++k)
    x.i[k] = x.i[k] * in[1].i[k] + in[2].i[k];
  return {call.Make(0, x)};
}

RefResults Lerp(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "end", "weight"});
  Elements y = Elements::Floats(in[0].sizes);
  for (size_t k = 0; k < y.f.size(); ++k) {
    const double a = in[0].F(k), b = in[1].F(k), w = in[2].F(k);
    y.f[k] = a + w * (b - a);
  }
  return {call.Make(0, y)};
}

// self's shape and dtype, the other's values.
RefResults Copy(RefCall& call) {
  return {call.Make(0, call.Load("src").Broadcast(call.result(0).sizes))};
}

constexpr ReferenceRow kRows[] = {
    {"aten.where.self", Where},
    {"aten.where.ScalarSelf", Where},
    {"aten.where.ScalarOther", Where},
    {"aten.where.Scalar", Where},
    {"aten.masked_fill.Scalar", MaskedFill},
    {"aten.masked_fill.Tensor", MaskedFill},
    {"aten.clamp.default", Clamp},
    {"aten.clamp.Tensor", Clamp},
    {"aten.clamp_min.default", ClampMin},
    {"aten.clamp_min.Tensor", ClampMin},
    {"aten.clamp_max.default", ClampMax},
    {"aten.clamp_max.Tensor", ClampMax},
    {"aten.addcmul.default", AddCombined<[](auto a, auto b) { return a * b; }>},
    {"aten.addcdiv.default",
     AddCombined<[](double a, double b) { return a / b; }>},
    {"prims.fma.default", Fma},
    {"aten.lerp.Scalar", Lerp},
    {"aten.lerp.Tensor", Lerp},
    {"aten.copy.default", Copy},
};

}  // namespace

absl::Span<const ReferenceRow> SelectReferences() { return kRows; }

}  // namespace kiln

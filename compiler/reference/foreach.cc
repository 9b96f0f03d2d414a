// Operators on lists: the same for each member.

#include <cmath>
#include <utility>
#include <vector>

#include "compiler/reference/reference_table.h"

namespace kiln {
namespace {

using Lists = std::vector<std::vector<RefTensor>>;

// The k-th member of each list as floats, broadcast to the first's shape.
std::vector<Elements> Members(const Lists& lists, size_t k) {
  std::vector<Elements> in;
  for (const std::vector<RefTensor>& list : lists) {
    in.push_back(Load(list[k]).AsFloats());
    in.back() = in.back().Broadcast(in[0].sizes);
  }
  return in;
}

// fn(members, number): one element from the members' elements and the number
// that goes with the list position.
template <auto fn>
RefResults ForEach(RefCall& call, std::vector<absl::string_view> names,
                   const std::vector<double>& numbers) {
  Lists lists;
  for (absl::string_view name : names) lists.push_back(call.Tensors(name));
  RefResults results;
  for (size_t k = 0; k < lists[0].size(); ++k) {
    const std::vector<Elements> in = Members(lists, k);
    Elements y = Elements::Floats(in[0].sizes);
    const double number = numbers.size() == 1 ? numbers[0] : numbers[k];
    for (size_t e = 0; e < y.f.size(); ++e) {
      y.f[e] = fn(in[0].f[e], in.size() > 1 ? in[1].f[e] : 0,
                  in.size() > 2 ? in[2].f[e] : 0, number);
    }
    results.push_back(call.Make(static_cast<int>(k), y));
  }
  return results;
}

std::vector<double> One(RefCall& call, absl::string_view name) {
  // A scalar meets float32 tensors as a float32.
  return {call.Has(name)
              ? static_cast<double>(static_cast<float>(call.Float(name)))
              : 1.0};
}

std::vector<double> Many(RefCall& call, absl::string_view name) {
  std::vector<double> numbers;
  for (const RefNumber& n : call.Numbers(name)) {
    numbers.push_back(static_cast<float>(n.F()));
  }
  return numbers;
}

template <auto fn>
RefResults Each(RefCall& call) {
  return ForEach<fn>(call, {"self"}, {0});
}
template <auto fn>
RefResults WithList(RefCall& call) {
  return ForEach<fn>(call, {"self", "other"}, One(call, "alpha"));
}
template <auto fn>
RefResults WithScalar(RefCall& call) {
  return ForEach<fn>(call, {"self"}, One(call, "scalar"));
}
template <auto fn>
RefResults WithScalars(RefCall& call) {
  return ForEach<fn>(call, {"self"}, Many(call, "scalars"));
}
template <auto fn>
RefResults CombineScalar(RefCall& call) {
  return ForEach<fn>(call, {"self", "tensor1", "tensor2"}, One(call, "value"));
}

constexpr auto kAddList = [](double a, double b, double, double s) {
  return a + s * b;
};
constexpr auto kSubList = [](double a, double b, double, double s) {
  return a - s * b;
};
constexpr auto kMulList = [](double a, double b, double, double) {
  return a * b;
};
constexpr auto kDivList = [](double a, double b, double, double) {
  return a / b;
};
constexpr auto kAdd = [](double a, double, double, double s) { return a + s; };
constexpr auto kSub = [](double a, double, double, double s) { return a - s; };
constexpr auto kMul = [](double a, double, double, double s) { return a * s; };
constexpr auto kDiv = [](double a, double, double, double s) { return a / s; };
constexpr auto kSqrt = [](double a, double, double, double) {
  return std::sqrt(a);
};
constexpr auto kNeg = [](double a, double, double, double) { return -a; };
constexpr auto kExp = [](double a, double, double, double) {
  return std::exp(a);
};
constexpr auto kReciprocal = [](double a, double, double, double) {
  return 1 / a;
};
constexpr auto kPow = [](double a, double, double, double s) {
  return std::pow(a, s);
};
constexpr auto kAddcmul = [](double a, double b, double c, double s) {
  return a + s * b * c;
};
constexpr auto kAddcdiv = [](double a, double b, double c, double s) {
  return a + s * b / c;
};

RefResults LerpScalar(RefCall& call) {
  return ForEach<[](double a, double b, double, double w) {
    return a + w * (b - a);
  }>(call, {"self", "tensors1"}, One(call, "weight"));
}

// The number to the power of each member.
RefResults PowScalarAndTensor(RefCall& call) {
  return ForEach<[](double a, double, double, double s) {
    return std::pow(s, a);
  }>(call, {"exponent"}, One(call, "self"));
}

template <auto fn>
RefResults WithTensor(RefCall& call) {
  return ForEach<fn>(call, {"self"},
                     {Load(call.Tensor("other")).AsFloats().f[0]});
}

constexpr auto kMaximum = [](double a, double b, double, double) {
  return std::isnan(a) || a > b ? a : b;
};
constexpr auto kMinimum = [](double a, double b, double, double) {
  return std::isnan(a) || a < b ? a : b;
};
constexpr auto kAbs = [](double a, double, double, double) {
  return std::fabs(a);
};

RefResults PowScalar(RefCall& call) {
  return ForEach<kPow>(call, {"self"}, One(call, "exponent"));
}

constexpr ReferenceRow kRows[] = {
    {"aten._foreach_add.List", WithList<kAddList>},
    {"aten._foreach_sub.List", WithList<kSubList>},
    {"aten._foreach_mul.List", WithList<kMulList>},
    {"aten._foreach_div.List", WithList<kDivList>},
    {"aten._foreach_add.Scalar", WithScalar<kAdd>},
    {"aten._foreach_sub.Scalar", WithScalar<kSub>},
    {"aten._foreach_mul.Scalar", WithScalar<kMul>},
    {"aten._foreach_div.Scalar", WithScalar<kDiv>},
    {"aten._foreach_add.ScalarList", WithScalars<kAdd>},
    {"aten._foreach_sub.ScalarList", WithScalars<kSub>},
    {"aten._foreach_mul.ScalarList", WithScalars<kMul>},
    {"aten._foreach_div.ScalarList", WithScalars<kDiv>},
    {"aten._foreach_sqrt.default", Each<kSqrt>},
    {"aten._foreach_neg.default", Each<kNeg>},
    {"aten._foreach_exp.default", Each<kExp>},
    {"aten._foreach_reciprocal.default", Each<kReciprocal>},
    {"aten._foreach_addcmul.Scalar", CombineScalar<kAddcmul>},
    {"aten._foreach_addcdiv.Scalar", CombineScalar<kAddcdiv>},
    {"aten._foreach_lerp.Scalar", LerpScalar},
    {"aten._foreach_pow.Scalar", PowScalar},
    {"aten._foreach_pow.ScalarAndTensor", PowScalarAndTensor},
    {"aten._foreach_mul.Tensor", WithTensor<kMul>},
    {"aten._foreach_div.Tensor", WithTensor<kDiv>},
    {"aten._foreach_maximum.List", WithList<kMaximum>},
    {"aten._foreach_minimum.List", WithList<kMinimum>},
    {"aten._foreach_abs.default", Each<kAbs>},
};

}  // namespace

absl::Span<const ReferenceRow> ForeachReferences() { return kRows; }

}  // namespace kiln

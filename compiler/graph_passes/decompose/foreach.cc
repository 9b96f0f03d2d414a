// Operators on lists: one operator a member. What they gain by standing in one
// kernel the scheduler finds again.

#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

// How many members the lists among the arguments have.
size_t MembersOf(const Decomposition& d) {
  for (const Param& param : d.op().schema.params) {
    if (d.Get(param.name).is_list()) return d.Get(param.name).list().size();
  }
  return 0;
}

// The single operator whose work each member is, and how the list operator's
// arguments become its own: tensor lists by member, a list of numbers by
// member, the rest as it is. Parameters keep their order.
Parts EachAs(Decomposition& d, const OpDef& single) {
  const size_t members = MembersOf(d);
  Parts parts;
  for (size_t k = 0; k < members; ++k) {
    Emitter::Args args;
    for (const Param& param : d.op().schema.params) {
      const Argument& arg = d.Get(param.name);
      args.push_back(arg.is_list() ? arg.list()[k] : arg);
    }
    parts.push_back(d.e.Call(single, std::move(args)));
  }
  return parts;
}

// The operators, in the order of the table below.
template <const absl::string_view& single>
Parts Each(Decomposition& d) {
  static const OpDef& kSingle = KnownOp(single);
  return EachAs(d, kSingle);
}

constexpr absl::string_view kAdd = "aten.add.Tensor";
constexpr absl::string_view kSub = "aten.sub.Tensor";
constexpr absl::string_view kMul = "aten.mul.Tensor";
constexpr absl::string_view kDiv = "aten.div.Tensor";
constexpr absl::string_view kSqrt = "aten.sqrt.default";
constexpr absl::string_view kRsqrt = "aten.rsqrt.default";
constexpr absl::string_view kNeg = "aten.neg.default";
constexpr absl::string_view kExp = "aten.exp.default";
constexpr absl::string_view kAbs = "aten.abs.default";
constexpr absl::string_view kReciprocal = "aten.reciprocal.default";
constexpr absl::string_view kPow = "aten.pow.Tensor_Scalar";
constexpr absl::string_view kPowOfScalar = "aten.pow.Scalar";
constexpr absl::string_view kLerp = "aten.lerp.Scalar";
constexpr absl::string_view kMaximum = "aten.maximum.default";
constexpr absl::string_view kMinimum = "aten.minimum.default";

// self + value * tensor1 * tensor2 (or / tensor2): `value` is given by keyword
// in the single operator.
template <bool divide>
Parts Addc(Decomposition& d) {
  Emitter& e = d.e;
  static const OpDef& kOp =
      KnownOp(divide ? "aten.addcdiv.default" : "aten.addcmul.default");
  const std::vector<ValueId> self = d.Tensors("self");
  const std::vector<ValueId> one = d.Tensors("tensor1");
  const std::vector<ValueId> two = d.Tensors("tensor2");
  const bool many = d.Has("scalars");
  Parts parts;
  for (size_t k = 0; k < self.size(); ++k) {
    parts.push_back(
        e.Call(kOp, {self[k], one[k], two[k],
                     many ? d.Get("scalars").list()[k] : d.Get("value")}));
  }
  return parts;
}

constexpr DecomposeRow kRows[] = {
    {"aten._foreach_add.List", Each<kAdd>},
    {"aten._foreach_sub.List", Each<kSub>},
    {"aten._foreach_mul.List", Each<kMul>},
    {"aten._foreach_div.List", Each<kDiv>},
    {"aten._foreach_add.Scalar", Each<kAdd>},
    {"aten._foreach_sub.Scalar", Each<kSub>},
    {"aten._foreach_mul.Scalar", Each<kMul>},
    {"aten._foreach_div.Scalar", Each<kDiv>},
    {"aten._foreach_add.ScalarList", Each<kAdd>},
    {"aten._foreach_sub.ScalarList", Each<kSub>},
    {"aten._foreach_mul.ScalarList", Each<kMul>},
    {"aten._foreach_div.ScalarList", Each<kDiv>},
    {"aten._foreach_maximum.List", Each<kMaximum>},
    {"aten._foreach_minimum.List", Each<kMinimum>},
    {"aten._foreach_sqrt.default", Each<kSqrt>},
    {"aten._foreach_rsqrt.default", Each<kRsqrt>},
    {"aten._foreach_neg.default", Each<kNeg>},
    {"aten._foreach_exp.default", Each<kExp>},
    {"aten._foreach_abs.default", Each<kAbs>},
    {"aten._foreach_reciprocal.default", Each<kReciprocal>},
    {"aten._foreach_pow.Scalar", Each<kPow>},
    {"aten._foreach_pow.ScalarAndTensor", Each<kPowOfScalar>},
    {"aten._foreach_mul.Tensor", Each<kMul>},
    {"aten._foreach_div.Tensor", Each<kDiv>},
    {"aten._foreach_lerp.Scalar", Each<kLerp>},
    {"aten._foreach_addcmul.Scalar", Addc<false>},
    {"aten._foreach_addcdiv.Scalar", Addc<true>},
    {"aten._foreach_addcmul.ScalarList", Addc<false>},
    {"aten._foreach_addcdiv.ScalarList", Addc<true>},
};

}  // namespace

absl::Span<const DecomposeRow> ForeachDecompositions() { return kRows; }

}  // namespace kiln

// Elementwise operators of one tensor.

#include "compiler/graph/elementwise_rules.h"
#include "compiler/graph/op_families.h"

namespace kiln {
namespace {

constexpr auto kLower = Handling::kLower;
constexpr auto kInplace = OpRow::Inplace::kYes;
constexpr absl::string_view kUnary = "(Tensor self) -> Tensor";

constexpr OpRow kRows[] = {
    // The dtype stays.
    {"aten.abs.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.neg.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.sign.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.sgn.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.ceil.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.floor.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.round.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.round.decimals", "(Tensor self, *, int decimals) -> Tensor",
     InferUnary, kLower, kInplace},
    {"aten.trunc.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.frac.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.square.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.relu.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.bitwise_not.default", kUnary, InferUnary, kLower, kInplace},
    {"aten.positive.default", kUnary, InferUnary, kLower},
    {"aten.nan_to_num.default",
     "(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) "
     "-> Tensor",
     InferUnary, kLower, kInplace},

    // Integers and bools become f32.
    {"aten.acos.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.acosh.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.asin.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.asinh.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.atan.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.atanh.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.cos.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.cosh.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.deg2rad.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.rad2deg.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.digamma.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.erf.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.erfc.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.erfinv.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.exp.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.exp2.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.expm1.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.lgamma.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.log.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.log10.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.log1p.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.log2.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.reciprocal.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.rsqrt.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.sigmoid.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.sin.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.sinc.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.sinh.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.sqrt.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.tan.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.tanh.default", kUnary, InferUnaryFloat, kLower, kInplace},
    {"aten.special_entr.default", kUnary, InferUnaryFloat, kLower},
    {"aten.logit.default", "(Tensor self, float? eps=None) -> Tensor",
     InferUnaryFloat, kLower, kInplace},

    {"aten.mvlgamma.default", "(Tensor self, int p) -> Tensor", InferUnaryFloat,
     Handling::kDecompose, kInplace},

    // Tests.
    {"aten.isnan.default", kUnary, InferUnaryBool, kLower},
    {"aten.isinf.default", kUnary, InferUnaryBool, kLower},
    {"aten.isneginf.default", kUnary, InferUnaryBool, kLower},
    {"aten.isposinf.default", kUnary, InferUnaryBool, kLower},
    {"aten.logical_not.default", kUnary, InferUnaryBool, kLower, kInplace},
    {"aten.signbit.default", kUnary, InferUnaryBool, kLower},
};

}  // namespace

absl::Span<const OpRow> UnaryOps() { return kRows; }

}  // namespace kiln

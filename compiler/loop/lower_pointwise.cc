// Elementwise arithmetic: one scalar operation on broadcast operands.

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

using Args = absl::Span<const ScalarId>;

// Sum, product, minimum and maximum of booleans are logical operations.
ScalarId Arithmetic(BodyBuilder& b, ScalarOp op, ScalarId x, ScalarId y) {
  if (b.dtype(x) == DType::kBool) {
    if (op == ScalarOp::kAdd || op == ScalarOp::kMaximum) op = ScalarOp::kOr;
    if (op == ScalarOp::kMul || op == ScalarOp::kMinimum) op = ScalarOp::kAnd;
    if (op == ScalarOp::kSub) op = ScalarOp::kXor;
  }
  return b.Op(op, x, y);
}

// Writes result 0 as `compute` of the first `operands` arguments, each cast to
// `type` and broadcast.
template <typename Compute>
absl::Status Elementwise(NodeLowering& n, size_t operands, DType type,
                         Compute compute) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ScalarId args[4];
  for (size_t k = 0; k < operands; ++k) {
    ASSIGN_OR_RETURN(args[k], nest.Operand(n.arg(k), at, type));
  }
  const ScalarId value = compute(nest.body, Args(args, operands));
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

DType ResultType(const NodeLowering& n) {
  return ComputeType(n.result_meta().dtype);
}

DType PromotedType(const NodeLowering& n, size_t operands) {
  return ComputeType(PromoteArguments(
      n.g.graph, absl::MakeSpan(n.node.args).subspan(0, operands)));
}

absl::Status Unary(NodeLowering& n, ScalarOp op) {
  return Elementwise(n, 1, ResultType(n),
                     [op](BodyBuilder& b, Args x) { return b.Op(op, x[0]); });
}

// Rounding operations, which do nothing to integers.
absl::Status Rounding(NodeLowering& n, ScalarOp op) {
  const DType type = ResultType(n);
  return Elementwise(n, 1, type, [op, type](BodyBuilder& b, Args x) {
    return IsFloat(type) ? b.Op(op, x[0]) : x[0];
  });
}

// isnan and similar, computed in the input's type.
absl::Status Predicate(NodeLowering& n, ScalarOp op) {
  const DType type = ComputeType(n.meta(0).dtype);
  return Elementwise(n, 1, type, [op, type](BodyBuilder& b, Args x) {
    if (!IsFloat(type)) {
      return op == ScalarOp::kSignBit
                 ? b.Op(ScalarOp::kLt, x[0], b.Int(type, 0))
                 : b.Bool(false);
    }
    return b.Op(op, x[0]);
  });
}

absl::Status Relu(NodeLowering& n, ScalarOp) {
  const DType type = ResultType(n);
  return Elementwise(n, 1, type, [type](BodyBuilder& b, Args x) {
    return b.Op(ScalarOp::kMaximum, x[0], b.Int(type, 0));
  });
}

absl::Status LogicalNot(NodeLowering& n, ScalarOp) {
  const DType type = ComputeType(n.meta(0).dtype);
  return Elementwise(n, 1, type, [](BodyBuilder& b, Args x) {
    return b.Op(ScalarOp::kNot, b.Cast(DType::kBool, x[0]));
  });
}

absl::Status Binary(NodeLowering& n, ScalarOp op) {
  return Elementwise(n, 2, ResultType(n), [op](BodyBuilder& b, Args x) {
    return Arithmetic(b, op, x[0], x[1]);
  });
}

// aten.add(self, other, alpha) and aten.sub.
absl::Status WithAlpha(NodeLowering& n, ScalarOp op) {
  const DType type = ResultType(n);
  const bool plain = n.Number(2, 1) == 1;
  return Elementwise(n, 2, type, [&](BodyBuilder& b, Args x) {
    if (plain) return Arithmetic(b, op, x[0], x[1]);
    const ScalarId alpha = n.Constant(b, type, 2);
    return b.Op(op, x[0], b.Op(ScalarOp::kMul, x[1], alpha));
  });
}

absl::Status ReversedSub(NodeLowering& n, ScalarOp) {
  const DType type = ResultType(n);
  const bool plain = n.Number(2, 1) == 1;
  return Elementwise(n, 2, type, [&](BodyBuilder& b, Args x) {
    ScalarId self = x[0];
    if (!plain) {
      self = b.Op(ScalarOp::kMul, self, n.Constant(b, type, 2));
    }
    return b.Op(ScalarOp::kSub, x[1], self);
  });
}

absl::Status DivMode(NodeLowering& n, ScalarOp) {
  const DType type = ResultType(n);
  const auto* mode = std::get_if<std::string>(&n.arg(2).v);
  const bool floor = mode != nullptr && *mode == "floor";
  const bool trunc = mode != nullptr && *mode == "trunc";
  return Elementwise(n, 2, type, [&](BodyBuilder& b, Args x) {
    if (floor) return b.Op(ScalarOp::kFloorDiv, x[0], x[1]);
    if (!trunc) return b.Op(ScalarOp::kDiv, x[0], x[1]);
    if (!IsFloat(type)) return b.Op(ScalarOp::kTruncDiv, x[0], x[1]);
    return b.Op(ScalarOp::kTrunc, b.Op(ScalarOp::kDiv, x[0], x[1]));
  });
}

absl::Status Compare(NodeLowering& n, ScalarOp op) {
  DType type = PromotedType(n, 2);
  if (type == DType::kBool) type = DType::kInt32;  // orders false before true
  return Elementwise(n, 2, type, [op](BodyBuilder& b, Args x) {
    return b.Op(op, x[0], x[1]);
  });
}

absl::Status Logical(NodeLowering& n, ScalarOp op) {
  return Elementwise(n, 2, PromotedType(n, 2), [op](BodyBuilder& b, Args x) {
    return b.Op(op, b.Cast(DType::kBool, x[0]), b.Cast(DType::kBool, x[1]));
  });
}

// fmax and fmin, which prefer a number to NaN.
absl::Status NumberWins(NodeLowering& n, ScalarOp op) {
  const DType type = ResultType(n);
  return Elementwise(n, 2, type, [op, type](BodyBuilder& b, Args x) {
    const ScalarId both = Arithmetic(b, op, x[0], x[1]);
    if (!IsFloat(type)) return both;
    const ScalarId right = b.Where(b.Op(ScalarOp::kIsNan, x[1]), x[0], both);
    return b.Where(b.Op(ScalarOp::kIsNan, x[0]), x[1], right);
  });
}

// The next value of a half type after x, towards `to`. Values are f32. The step is one
// unit of the half type's last place, or the least subnormal of f16.
ScalarId NextHalf(BodyBuilder& b, DType half, ScalarId x, ScalarId to) {
  const DType f32 = DType::kFloat32, i32 = DType::kInt32;
  const ScalarId zero = b.Float(f32, 0);
  const ScalarId up = b.Op(ScalarOp::kGt, to, x);
  const ScalarId grows =
      b.Op(ScalarOp::kEq, b.Cast(i32, b.Op(ScalarOp::kGt, x, zero)),
           b.Cast(i32, up));
  const bool brain = half == DType::kBFloat16;
  const ScalarId place = b.Int(i32, brain ? 1 << 16 : 1 << 13);
  const ScalarId step = b.Where(grows, place, b.Op(ScalarOp::kNeg, place));
  ScalarId next = b.Bitcast(f32, b.Op(ScalarOp::kAdd, b.Bitcast(i32, x), step));
  const ScalarId least = b.Float(f32, brain ? 0x1p-133 : 0x1p-24);
  const ScalarId tiny = b.Where(up, least, b.Op(ScalarOp::kNeg, least));
  if (brain) {
    next = b.Where(b.Op(ScalarOp::kEq, x, zero), tiny, next);
  } else {
    const ScalarId size = b.Op(ScalarOp::kAbs, x);
    const ScalarId normal = b.Float(f32, 0x1p-14);
    const ScalarId inner =
        b.Op(ScalarOp::kOr, b.Op(ScalarOp::kLt, size, normal),
             b.Op(ScalarOp::kAnd, b.Op(ScalarOp::kEq, size, normal),
                  b.Op(ScalarOp::kNot, grows)));
    next = b.Where(inner, b.Op(ScalarOp::kAdd, x, tiny), next);
    const ScalarId most = b.Op(ScalarOp::kCopySign, b.Float(f32, 65504), x);
    next = b.Where(b.Op(ScalarOp::kIsInf, x), most, next);
  }
  next = b.Where(b.Op(ScalarOp::kEq, x, to), to, next);
  const ScalarId sum = b.Op(ScalarOp::kAdd, x, to);  // NaN if either is
  const ScalarId none = b.Op(ScalarOp::kOr, b.Op(ScalarOp::kIsNan, x),
                             b.Op(ScalarOp::kIsNan, to));
  return b.Where(none, sum, next);
}

absl::Status NextAfter(NodeLowering& n, ScalarOp op) {
  const DType due = n.result_meta().dtype;
  return Elementwise(n, 2, ResultType(n), [=](BodyBuilder& b, Args x) {
    return IsHalf(due) ? NextHalf(b, due, x[0], x[1]) : b.Op(op, x[0], x[1]);
  });
}

// Powers by a small number are products, as in Inductor.
ScalarId PowerBy(BodyBuilder& b, DType type, ScalarId x, double exponent) {
  if (exponent == 0) return b.Int(type, 1);
  if (exponent == 1) return x;
  if (exponent == 2) return b.Op(ScalarOp::kMul, x, x);
  if (exponent == 3) return b.Op(ScalarOp::kMul, b.Op(ScalarOp::kMul, x, x), x);
  if (exponent == 4) {
    const ScalarId square = b.Op(ScalarOp::kMul, x, x);
    return b.Op(ScalarOp::kMul, square, square);
  }
  if (IsFloat(type)) {
    if (exponent == 0.5) return b.Op(ScalarOp::kSqrt, x);
    if (exponent == -0.5) return b.Op(ScalarOp::kRsqrt, x);
    if (exponent == -1) return b.Op(ScalarOp::kReciprocal, x);
    if (exponent == -2) {
      return b.Op(ScalarOp::kReciprocal, b.Op(ScalarOp::kMul, x, x));
    }
  }
  return b.Op(ScalarOp::kPow, x, b.Float(type, exponent));
}

absl::Status PowScalar(NodeLowering& n, ScalarOp) {
  const DType type = ResultType(n);
  const double exponent = n.Number(1);
  return Elementwise(n, 1, type, [=](BodyBuilder& b, Args x) {
    return PowerBy(b, type, x[0], exponent);
  });
}

absl::Status Lerp(NodeLowering& n, ScalarOp) {
  const DType type = ResultType(n);
  return Elementwise(n, 3, type, [=](BodyBuilder& b, Args x) {
    // As in eager mode: from the nearer end.
    const ScalarId one = b.Float(type, 1);
    const ScalarId span = b.Op(ScalarOp::kSub, x[1], x[0]);
    const ScalarId from_start =
        b.Op(ScalarOp::kAdd, x[0], b.Op(ScalarOp::kMul, x[2], span));
    const ScalarId from_end =
        b.Op(ScalarOp::kSub, x[1],
             b.Op(ScalarOp::kMul, b.Op(ScalarOp::kSub, one, x[2]), span));
    const ScalarId near =
        b.Op(ScalarOp::kLt, b.Op(ScalarOp::kAbs, x[2]), b.Float(type, 0.5));
    return b.Where(near, from_start, from_end);
  });
}

// self + value * t1 (* or /) t2.
absl::Status AddCombined(NodeLowering& n, ScalarOp op) {
  const DType type = ResultType(n);
  const bool plain = n.Number(3, 1) == 1;
  return Elementwise(n, 3, type, [&](BodyBuilder& b, Args x) {
    ScalarId term = x[1];
    if (!plain) term = b.Op(ScalarOp::kMul, n.Constant(b, type, 3), term);
    return b.Op(ScalarOp::kAdd, x[0], b.Op(op, term, x[2]));
  });
}

// a * b + c, rounded once.
absl::Status Fma(NodeLowering& n, ScalarOp op) {
  const DType type = ResultType(n);
  return Elementwise(n, 3, type, [=](BodyBuilder& b, Args x) {
    if (IsFloat(type)) return b.Op(op, x);
    return b.Op(ScalarOp::kAdd, b.Op(ScalarOp::kMul, x[0], x[1]), x[2]);
  });
}

constexpr LowerRow kRows[] = {
    {"aten.abs.default", Unary, ScalarOp::kAbs},
    {"aten.acos.default", Unary, ScalarOp::kAcos},
    {"aten.acosh.default", Unary, ScalarOp::kAcosh},
    {"aten.asin.default", Unary, ScalarOp::kAsin},
    {"aten.asinh.default", Unary, ScalarOp::kAsinh},
    {"aten.atan.default", Unary, ScalarOp::kAtan},
    {"aten.atanh.default", Unary, ScalarOp::kAtanh},
    {"aten.bitwise_not.default", Unary, ScalarOp::kNot},
    {"aten.cos.default", Unary, ScalarOp::kCos},
    {"aten.cosh.default", Unary, ScalarOp::kCosh},
    {"aten.digamma.default", Unary, ScalarOp::kDigamma},
    {"aten.erf.default", Unary, ScalarOp::kErf},
    {"aten.erfc.default", Unary, ScalarOp::kErfc},
    {"aten.erfinv.default", Unary, ScalarOp::kErfinv},
    {"aten.exp.default", Unary, ScalarOp::kExp},
    {"aten.exp2.default", Unary, ScalarOp::kExp2},
    {"aten.expm1.default", Unary, ScalarOp::kExpm1},
    {"aten.lgamma.default", Unary, ScalarOp::kLgamma},
    {"aten.log.default", Unary, ScalarOp::kLog},
    {"aten.log10.default", Unary, ScalarOp::kLog10},
    {"aten.log1p.default", Unary, ScalarOp::kLog1p},
    {"aten.log2.default", Unary, ScalarOp::kLog2},
    {"aten.neg.default", Unary, ScalarOp::kNeg},
    {"aten.reciprocal.default", Unary, ScalarOp::kReciprocal},
    {"aten.relu.default", Relu},
    {"aten.rsqrt.default", Unary, ScalarOp::kRsqrt},
    {"aten.sigmoid.default", Unary, ScalarOp::kSigmoid},
    {"aten.sign.default", Unary, ScalarOp::kSign},
    {"aten.sgn.default", Unary, ScalarOp::kSign},
    {"aten.sin.default", Unary, ScalarOp::kSin},
    {"aten.sinh.default", Unary, ScalarOp::kSinh},
    {"aten.sqrt.default", Unary, ScalarOp::kSqrt},
    {"aten.square.default", Unary, ScalarOp::kSquare},
    {"aten.tan.default", Unary, ScalarOp::kTan},
    {"aten.tanh.default", Unary, ScalarOp::kTanh},
    {"aten.ceil.default", Rounding, ScalarOp::kCeil},
    {"aten.floor.default", Rounding, ScalarOp::kFloor},
    {"aten.round.default", Rounding, ScalarOp::kRound},
    {"aten.trunc.default", Rounding, ScalarOp::kTrunc},
    {"aten.isinf.default", Predicate, ScalarOp::kIsInf},
    {"aten.isnan.default", Predicate, ScalarOp::kIsNan},
    {"aten.signbit.default", Predicate, ScalarOp::kSignBit},
    {"aten.logical_not.default", LogicalNot},
    {"aten.add.Tensor", WithAlpha, ScalarOp::kAdd},
    {"aten.add.Scalar", WithAlpha, ScalarOp::kAdd},
    {"aten.sub.Tensor", WithAlpha, ScalarOp::kSub},
    {"aten.sub.Scalar", WithAlpha, ScalarOp::kSub},
    {"aten.rsub.Tensor", ReversedSub},
    {"aten.rsub.Scalar", ReversedSub},
    {"aten.mul.Tensor", Binary, ScalarOp::kMul},
    {"aten.mul.Scalar", Binary, ScalarOp::kMul},
    {"aten.div.Tensor", Binary, ScalarOp::kDiv},
    {"aten.div.Scalar", Binary, ScalarOp::kDiv},
    {"aten.true_divide.Tensor", Binary, ScalarOp::kDiv},
    {"aten.div.Tensor_mode", DivMode},
    {"aten.div.Scalar_mode", DivMode},
    {"aten.floor_divide.default", Binary, ScalarOp::kFloorDiv},
    {"aten.floor_divide.Scalar", Binary, ScalarOp::kFloorDiv},
    {"aten.remainder.Tensor", Binary, ScalarOp::kRemainder},
    {"aten.remainder.Scalar", Binary, ScalarOp::kRemainder},
    {"aten.remainder.Scalar_Tensor", Binary, ScalarOp::kRemainder},
    {"aten.fmod.Tensor", Binary, ScalarOp::kFmod},
    {"aten.fmod.Scalar", Binary, ScalarOp::kFmod},
    {"aten.pow.Tensor_Tensor", Binary, ScalarOp::kPow},
    {"aten.pow.Scalar", Binary, ScalarOp::kPow},
    {"aten.pow.Tensor_Scalar", PowScalar},
    {"aten.atan2.default", Binary, ScalarOp::kAtan2},
    {"aten.copysign.Tensor", Binary, ScalarOp::kCopySign},
    {"aten.copysign.Scalar", Binary, ScalarOp::kCopySign},
    {"aten.nextafter.default", NextAfter, ScalarOp::kNextAfter},
    {"aten.hypot.default", Binary, ScalarOp::kHypot},
    {"aten.maximum.default", Binary, ScalarOp::kMaximum},
    {"aten.minimum.default", Binary, ScalarOp::kMinimum},
    {"aten.fmax.default", NumberWins, ScalarOp::kMaximum},
    {"aten.fmin.default", NumberWins, ScalarOp::kMinimum},
    {"aten.bitwise_and.Tensor", Binary, ScalarOp::kAnd},
    {"aten.bitwise_and.Scalar", Binary, ScalarOp::kAnd},
    {"aten.bitwise_or.Tensor", Binary, ScalarOp::kOr},
    {"aten.bitwise_or.Scalar", Binary, ScalarOp::kOr},
    {"aten.bitwise_xor.Tensor", Binary, ScalarOp::kXor},
    {"aten.bitwise_xor.Scalar", Binary, ScalarOp::kXor},
    {"aten.bitwise_left_shift.Tensor", Binary, ScalarOp::kShiftLeft},
    {"aten.bitwise_left_shift.Tensor_Scalar", Binary, ScalarOp::kShiftLeft},
    {"aten.bitwise_right_shift.Tensor", Binary, ScalarOp::kShiftRight},
    {"aten.bitwise_right_shift.Tensor_Scalar", Binary, ScalarOp::kShiftRight},
    {"aten.logical_and.default", Logical, ScalarOp::kAnd},
    {"aten.logical_or.default", Logical, ScalarOp::kOr},
    {"aten.logical_xor.default", Logical, ScalarOp::kXor},
    {"aten.eq.Tensor", Compare, ScalarOp::kEq},
    {"aten.eq.Scalar", Compare, ScalarOp::kEq},
    {"aten.ne.Tensor", Compare, ScalarOp::kNe},
    {"aten.ne.Scalar", Compare, ScalarOp::kNe},
    {"aten.lt.Tensor", Compare, ScalarOp::kLt},
    {"aten.lt.Scalar", Compare, ScalarOp::kLt},
    {"aten.le.Tensor", Compare, ScalarOp::kLe},
    {"aten.le.Scalar", Compare, ScalarOp::kLe},
    {"aten.gt.Tensor", Compare, ScalarOp::kGt},
    {"aten.gt.Scalar", Compare, ScalarOp::kGt},
    {"aten.ge.Tensor", Compare, ScalarOp::kGe},
    {"aten.ge.Scalar", Compare, ScalarOp::kGe},
    {"aten.lerp.Tensor", Lerp},
    {"aten.lerp.Scalar", Lerp},
    {"aten.addcmul.default", AddCombined, ScalarOp::kMul},
    {"aten.addcdiv.default", AddCombined, ScalarOp::kDiv},
    {"prims.fma.default", Fma, ScalarOp::kFma},
};

}  // namespace

absl::Span<const LowerRow> PointwiseLowerings() { return kRows; }

}  // namespace kiln

// Choices, clamps, casts and copies: elementwise operators with their own type rules.

#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

absl::Status Where(NodeLowering& n, ScalarOp) {
  const DType type = ComputeType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(const ScalarId condition,
                   nest.Operand(n.arg(0), at, DType::kBool));
  ASSIGN_OR_RETURN(const ScalarId then, nest.Operand(n.arg(1), at, type));
  ASSIGN_OR_RETURN(const ScalarId other, nest.Operand(n.arg(2), at, type));
  nest.Store(n.result(), at, nest.body.Where(condition, then, other));
  nest.Finish();
  return absl::OkStatus();
}

absl::Status MaskedFill(NodeLowering& n, ScalarOp) {
  const DType type = ComputeType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(const ScalarId self, nest.Operand(n.arg(0), at, type));
  ASSIGN_OR_RETURN(const ScalarId mask,
                   nest.Operand(n.arg(1), at, DType::kBool));
  ASSIGN_OR_RETURN(const ScalarId value, nest.Operand(n.arg(2), at, type));
  nest.Store(n.result(), at, nest.body.Where(mask, value, self));
  nest.Finish();
  return absl::OkStatus();
}

// clamp(self, min, max). Either bound may be absent; NaN stays NaN.
absl::Status ClampBetween(NodeLowering& n, const Argument& low,
                          const Argument& high) {
  const DType type = ComputeType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(ScalarId value, nest.Operand(n.arg(0), at, type));
  if (!low.is_none()) {
    ASSIGN_OR_RETURN(const ScalarId bound, nest.Operand(low, at, type));
    value = nest.body.Op(ScalarOp::kMaximum, value, bound);
  }
  if (!high.is_none()) {
    ASSIGN_OR_RETURN(const ScalarId bound, nest.Operand(high, at, type));
    value = nest.body.Op(ScalarOp::kMinimum, value, bound);
  }
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

absl::Status Clamp(NodeLowering& n, ScalarOp) {
  const Argument none;
  return ClampBetween(n, n.node.args.size() > 1 ? n.arg(1) : none,
                      n.node.args.size() > 2 ? n.arg(2) : none);
}
absl::Status ClampMin(NodeLowering& n, ScalarOp) {
  return ClampBetween(n, n.arg(1), Argument());
}
absl::Status ClampMax(NodeLowering& n, ScalarOp) {
  return ClampBetween(n, Argument(), n.arg(1));
}

// Casts and copies: argument 0 in the result's type.
absl::Status Copy(NodeLowering& n, ScalarOp) {
  const DType to = n.result_meta().dtype;
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(ScalarId value, nest.Operand(n.arg(0), at, n.meta(0).dtype));
  // Negative floats wrap around in unsigned bytes, as in eager mode on the CPU.
  if (to == DType::kUInt8 && IsFloat(n.meta(0).dtype)) {
    value = nest.body.Cast(DType::kInt64, value);
  }
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

// round_to(a, dtype).
absl::Status RoundTo(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(const ScalarId value,
                   nest.Operand(n.arg(0), at, DType::kFloat32));
  const bool half = std::get<DType>(n.arg(1).v) == DType::kFloat16;
  nest.Store(
      n.result(), at,
      nest.body.Op(half ? ScalarOp::kRoundFloat16 : ScalarOp::kRoundBFloat16,
                   value));
  nest.Finish();
  return absl::OkStatus();
}

// copy(self, src): src broadcast to self, in self's type.
absl::Status CopyFrom(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(const ScalarId value,
                   nest.Operand(n.arg(1), at, n.meta(1).dtype));
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

absl::Status FillWith(NodeLowering& n, ScalarOp) {
  const DType type = n.result_meta().dtype;
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(const ScalarId value,
                   nest.Operand(n.arg(1), at, ComputeType(type)));
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

absl::Status NanToNum(NodeLowering& n, ScalarOp) {
  const DType type = ComputeType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(ScalarId x, nest.Operand(n.arg(0), at, type));
  if (IsFloat(type)) {
    BodyBuilder& b = nest.body;
    double largest = std::numeric_limits<float>::max();
    if (type == DType::kFloat64) largest = std::numeric_limits<double>::max();
    if (n.result_meta().dtype == DType::kFloat16) largest = 65504;
    if (n.result_meta().dtype == DType::kBFloat16) largest = 0x1.FEp127;
    const auto number = [&](size_t k, double fallback) {
      return b.Float(type, n.Number(k, fallback));
    };
    const double infinity = std::numeric_limits<double>::infinity();
    const ScalarId zero = number(1, 0), high = number(2, largest),
                   low = number(3, -largest);
    const ScalarId raw = x;
    x = b.Where(b.Op(ScalarOp::kEq, raw, b.Float(type, infinity)), high, x);
    x = b.Where(b.Op(ScalarOp::kEq, raw, b.Float(type, -infinity)), low, x);
    x = b.Where(b.Op(ScalarOp::kIsNan, raw), zero, x);
  }
  nest.Store(n.result(), at, x);
  nest.Finish();
  return absl::OkStatus();
}

// tril and triu: a choice by the difference of the last two coordinates.
absl::Status Triangle(NodeLowering& n, ScalarOp op) {
  NestWriter nest = n.Write();
  const TensorMeta& m = n.result_meta();
  const DimVector at = nest.Iterate(m.sizes);
  const SymExpr diagonal = n.node.args.size() > 1 ? n.arg(1).sym() : SymExpr(0);
  BodyBuilder& b = nest.body;
  const size_t rank = at.size();
  const ScalarId ahead = b.Index(at[rank - 1] - at[rank - 2]);
  const ScalarId keep = b.Op(op, ahead, b.Index(diagonal));
  ASSIGN_OR_RETURN(const ScalarId x,
                   nest.Operand(n.arg(0), at, ComputeType(m.dtype)));
  nest.Store(n.result(), at, b.Where(keep, x, b.Int(ComputeType(m.dtype), 0)));
  nest.Finish();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
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
    {"aten.nan_to_num.default", NanToNum},
    {"aten.tril.default", Triangle, ScalarOp::kLe},
    {"aten.triu.default", Triangle, ScalarOp::kGe},
    {"prims.convert_element_type.default", Copy},
    {"prims.round_to.default", RoundTo},
    {"aten._to_copy.default", Copy},
    {"aten.clone.default", Copy},
    {"prims.copy_strided.default", Copy},
    {"aten.contiguous.default", Copy},
    {"aten.lift_fresh_copy.default", Copy},
    {"aten.positive.default", Copy},
    {"aten.copy.default", CopyFrom},
    {"aten.fill.Scalar", FillWith},
    {"aten.fill.Tensor", FillWith},
};

}  // namespace

absl::Span<const LowerRow> SelectLowerings() { return kRows; }

}  // namespace kiln

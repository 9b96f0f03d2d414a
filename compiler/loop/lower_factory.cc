// Tensors without inputs: constants and coordinates.

#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

absl::Status FillResult(NodeLowering& n, const Argument& value) {
  const DType type = n.result_meta().dtype;
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(const ScalarId v,
                   nest.Operand(value, at, ComputeType(type)));
  nest.Store(n.result(), at, v);
  nest.Finish();
  return absl::OkStatus();
}

// Uninitialized tensors are zeros, so that results are reproducible.
absl::Status Zeros(NodeLowering& n, ScalarOp) {
  return FillResult(n, Argument(0));
}
absl::Status Ones(NodeLowering& n, ScalarOp) {
  return FillResult(n, Argument(1));
}
absl::Status First(NodeLowering& n, ScalarOp) {
  return FillResult(n, n.arg(0));
}
absl::Status Second(NodeLowering& n, ScalarOp) {
  return FillResult(n, n.arg(1));
}
absl::Status Third(NodeLowering& n, ScalarOp) {
  return FillResult(n, n.arg(2));
}

// start + i * step, in the type in which eager mode computes: double for floats, so that
// long ranges stay exact.
absl::Status Range(NodeLowering& n, const Argument& start,
                   const Argument& step) {
  const DType type = n.result_meta().dtype;
  const DType compute = IsFloat(type) ? DType::kFloat64 : DType::kInt64;
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  BodyBuilder& b = nest.body;
  ScalarId value;
  const auto* s = std::get_if<SymExpr>(&start.v);
  const auto* k = std::get_if<SymExpr>(&step.v);
  if (s != nullptr && k != nullptr) {
    value = b.Cast(compute, b.Index(*s + at[0] * *k));
  } else {
    ASSIGN_OR_RETURN(const ScalarId from, nest.Operand(start, at, compute));
    ASSIGN_OR_RETURN(const ScalarId by, nest.Operand(step, at, compute));
    value = b.Op(ScalarOp::kMul, b.Cast(compute, b.Index(at[0])), by);
    value = b.Op(ScalarOp::kAdd, from, value);
  }
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

absl::Status Arange(NodeLowering& n, ScalarOp) {
  return Range(n, Argument(0), Argument(1));
}
absl::Status ArangeStart(NodeLowering& n, ScalarOp) {
  return Range(n, n.arg(0), Argument(1));
}
absl::Status ArangeStep(NodeLowering& n, ScalarOp) {
  return Range(n, n.arg(0), n.arg(2));
}
// prims.iota(length, *, start, step, …).
absl::Status Iota(NodeLowering& n, ScalarOp) {
  return Range(n, n.arg(1), n.arg(2));
}

absl::Status Eye(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  BodyBuilder& b = nest.body;
  nest.Store(n.result(), at,
             b.Op(ScalarOp::kEq, b.Index(at[0]), b.Index(at[1])));
  nest.Finish();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
    {"aten.zero.default", Zeros},
    {"aten.zeros.default", Zeros},
    {"aten.zeros_like.default", Zeros},
    {"aten.new_zeros.default", Zeros},
    {"aten.empty.memory_format", Zeros},
    {"aten.empty_like.default", Zeros},
    {"aten.empty_strided.default", Zeros},
    {"aten.empty_permuted.default", Zeros},
    {"aten.new_empty.default", Zeros},
    {"aten.new_empty_strided.default", Zeros},
    {"aten.ones.default", Ones},
    {"aten.ones_like.default", Ones},
    {"aten.new_ones.default", Ones},
    {"aten.scalar_tensor.default", First},
    {"aten.full.default", Second},
    {"aten.full_like.default", Second},
    {"aten.new_full.default", Third},
    {"aten.arange.default", Arange},
    {"aten.arange.start", ArangeStart},
    {"aten.arange.start_step", ArangeStep},
    {"prims.iota.default", Iota},
    {"aten.eye.default", Eye},
    {"aten.eye.m", Eye},
};

}  // namespace

absl::Span<const LowerRow> FactoryLowerings() { return kRows; }

}  // namespace kiln

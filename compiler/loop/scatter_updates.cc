#include "compiler/loop/scatter_updates.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/exact_sums.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

bool IsZeros(const GraphLowering& g, ValueId v) {
  const uint32_t producer = g.graph.value(v).node;
  if (producer == Value::kNoNode) return false;
  const Node& node = g.graph.nodes()[producer];
  const absl::string_view op = node.op->name;
  if (op == "aten.zeros.default" || op == "aten.zeros_like.default" ||
      op == "aten.new_zeros.default") {
    return true;
  }
  return (op == "aten.full.default" || op == "aten.full_like.default") &&
         LiteralOf(node.args[1]) == 0.0;
}

bool StartsAtZero(const NodeLowering& n, std::optional<ValueId> self) {
  return !self.has_value() || IsZeros(n.g, *self);
}

// Copies `self`, or zeros, to the buffer that is to be updated.
void FillTarget(NodeLowering& n, std::optional<ValueId> self, BufferId to) {
  if (StartsAtZero(n, self)) {
    n.g.program.steps.push_back(Fill{to, Number{.i = 0}});
    return;
  }
  NestWriter copy = n.Write();
  const DimVector at = copy.Iterate(n.result_meta().sizes);
  copy.StoreTo(to, at, copy.Load(*self, at));
  copy.Finish();
}

// Whether `self`, an input whose memory must hold the result at the end, may be updated
// in place, because nothing else needs its old values. Never on the CPU, where a run
// with an index out of bounds continues to the end of the kernel, so that it must not
// write to the caller's memory. Never for scatters, which copy as Inductor's do: tests
// of Inductor count the bytes of these copies.
bool MayBeWrittenOver(const NodeLowering& n, ValueId self) {
  const GraphLowering& g = n.g;
  const PlacedValue& placed = g.values[self.index];
  if (g.graph.device != DeviceType::kCuda ||
      absl::StrContains(n.node.op->name, "scatter") ||
      g.uses[self.index] != 1 || g.values[n.result().index].placed ||
      g.program.buffers[placed.buffer].kind != BufferKind::kInput ||
      placed.index != OwnAxes(g.meta(self).sizes)) {
    return false;
  }
  for (const std::optional<ValueId>& output : g.outputs) {
    if (output.has_value() && MemoryOf(g.graph, *output) == n.result())
      return false;
  }
  return absl::c_any_of(g.graph.mutations, [&](const Mutation& mutation) {
    return mutation.input == self && mutation.value == n.result();
  });
}

// The buffer that is to be updated, filled with the elements of `self`, or with zeros.
BufferId TargetOf(NodeLowering& n, std::optional<ValueId> self) {
  if (self.has_value() && MayBeWrittenOver(n, *self)) {
    const PlacedValue& placed = n.g.values[self->index];
    n.g.values[n.result().index] = placed;
    const Buffer& buffer = n.g.program.buffers[placed.buffer];
    n.g.program.mutated_inputs.push_back(buffer.index);
    return placed.buffer;
  }
  const BufferId to = n.g.PlaceResult(n.result());
  FillTarget(n, self, to);
  return to;
}

// Whether the order of updates must be fixed but is the hardware's. On the CPU one thread
// does all updates of a nest in order.
bool OrderIsTheHardwares(const NodeLowering& n) {
  return n.g.options.deterministic && n.g.graph.device == DeviceType::kCuda;
}

// The type in which sums of a dtype are kept.
DType SumType(DType dtype) {
  const DType type = ComputeType(dtype);
  return SizeInBytes(type) < 4 ? DType::kInt32 : type;
}

ScalarId ValueOf(NestWriter&, const Update& update) { return update.value; }

// First finds the largest number of the updates of each element, counted from 1. Then
// does only that update.
absl::Status SetInOrder(NodeLowering& n, WriteUpdate write, BufferId to) {
  const BufferId last = FilledCells(n, DType::kInt64, Number{.i = 0});
  RETURN_IF_ERROR(ApplyUpdates(n, write, last, StoreMode::kAtomicMax,
                               [](NestWriter& nest, const Update& update) {
                                 return nest.body.Index(update.number + 1);
                               }));
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  ASSIGN_OR_RETURN(const Update update, write(nest));
  ScalarId wins = b.Op(ScalarOp::kEq, b.Load(last, DType::kInt64, update.index),
                       b.Index(update.number + 1));
  if (update.mask != Store::kNoMask)
    wins = b.Op(ScalarOp::kAnd, update.mask, wins);
  nest.StoreTo(to, update.index, update.value, StoreMode::kSet, wins);
  nest.Finish();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UpdateSums> SumUpdates(NodeLowering& n, WriteUpdate write) {
  UpdateSums sums;
  const DType dtype = n.result_meta().dtype;
  if (OrderIsTheHardwares(n) && IsFloat(dtype)) {
    ASSIGN_OR_RETURN(sums.exact, AddExactly(n, write));
    return sums;
  }
  sums.cells = FilledCells(n, SumType(dtype), Number{.i = 0});
  RETURN_IF_ERROR(
      ApplyUpdates(n, write, sums.cells, StoreMode::kAtomicAdd, ValueOf));
  return sums;
}

ScalarId ReadSum(NestWriter& nest, const UpdateSums& sums,
                 const DimVector& at) {
  if (sums.exact.has_value()) return ReadSum(nest, *sums.exact, at);
  return nest.LoadCell(sums.cells, at);
}

absl::Status SetElements(NodeLowering& n, std::optional<ValueId> self,
                         WriteUpdate write, SetNumbers numbers) {
  const BufferId to = TargetOf(n, self);
  if (numbers == SetNumbers::kAny && OrderIsTheHardwares(n))
    return SetInOrder(n, write, to);
  return ApplyUpdates(n, write, to, StoreMode::kSet, ValueOf);
}

absl::Status AddToElements(NodeLowering& n, std::optional<ValueId> self,
                           WriteUpdate write) {
  const TensorMeta& m = n.result_meta();
  if (m.dtype == DType::kBool) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(n.node.op->name, ": sums of booleans"));
  }
  const bool exact = OrderIsTheHardwares(n) && IsFloat(m.dtype);
  if (!exact && SumType(m.dtype) == m.dtype) {
    const BufferId to = TargetOf(n, self);
    return ApplyUpdates(n, write, to, StoreMode::kAtomicAdd, ValueOf);
  }
  ASSIGN_OR_RETURN(const UpdateSums sums, SumUpdates(n, write));
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(m.sizes);
  ScalarId sum = ReadSum(nest, sums, at);
  if (!StartsAtZero(n, self)) {
    sum = nest.body.Op(ScalarOp::kAdd,
                       nest.LoadAs(*self, at, nest.body.dtype(sum)), sum);
  }
  nest.Store(n.result(), at, nest.body.Cast(ComputeType(m.dtype), sum));
  nest.Finish();
  return absl::OkStatus();
}

}  // namespace kiln

#include "compiler/loop/lowering.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "proto/base/status.h"

namespace kiln {

DimVector OwnAxes(const DimVector& sizes) {
  DimVector index;
  for (uint32_t d = 0; d < sizes.size(); ++d) {
    index.push_back(sizes[d].Is(1) ? SymExpr(0) : SymExpr::Axis(d));
  }
  return index;
}

BufferId GraphLowering::AddBuffer(BufferKind kind, DType dtype, DimVector sizes,
                                  DimVector strides) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.name = absl::StrCat("buf", program.buffers.size());
  buffer.sizes = std::move(sizes);
  buffer.strides = std::move(strides);
  program.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(program.buffers.size() - 1);
}

namespace {

// Whether `strides` address product(sizes) elements without gaps or overlap.
bool IsDense(const DimVector& sizes, const DimVector& strides) {
  absl::InlinedVector<size_t, 6> left;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].Is(0)) return true;
    if (!sizes[d].Is(1)) left.push_back(d);
  }
  SymExpr due = 1;
  while (!left.empty()) {
    size_t found = left.size();
    for (size_t k = 0; k < left.size(); ++k) {
      if (strides[left[k]] == due) found = k;
    }
    if (found == left.size()) return false;
    due *= sizes[left[found]];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(found));
  }
  return true;
}

// The same, except that rows of contiguous elements may be padded. Clients save such
// matrices for their backward.
bool HasRoomBehindRows(DimVector sizes, const DimVector& strides) {
  int64_t length = 0, apart = std::numeric_limits<int64_t>::max();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].is_constant() || !strides[d].is_constant()) return false;
    if (sizes[d].Is(1)) continue;
    if (strides[d].Is(1)) {
      length = sizes[d].constant();
    } else {
      apart = std::min(apart, strides[d].constant());
    }
  }
  if (length == 0 || apart < length) return false;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (strides[d].Is(1) && !sizes[d].Is(1)) sizes[d] = apart;
  return IsDense(sizes, strides);
}

}  // namespace

ValueId MemoryOf(const Graph& graph, ValueId v) {
  for (;;) {
    const uint32_t producer = graph.value(v).node;
    if (producer == Value::kNoNode) return v;
    const Node& node = graph.nodes()[producer];
    if (node.op->handling != Handling::kView) return v;
    v = node.args[0].value();
  }
}

BufferId GraphLowering::PlaceResult(ValueId result) {
  PlacedValue& placed = values[result.index];
  if (placed.placed) return placed.buffer;
  const TensorMeta& m = meta(result);
  const DimVector wanted =
      channels_last[result.index]            ? ChannelsLastStrides(m.sizes)
      : output_strides[result.index].empty() ? m.strides
                                             : output_strides[result.index];
  const bool as_wanted =
      IsDense(m.sizes, wanted) || (!output_strides[result.index].empty() &&
                                   HasRoomBehindRows(m.sizes, wanted));
  placed.buffer = AddBuffer(BufferKind::kTemporary, m.dtype, m.sizes,
                            as_wanted ? wanted : ContiguousStrides(m.sizes));
  placed.index = OwnAxes(m.sizes);
  placed.placed = true;
  return placed.buffer;
}

std::optional<View> GraphLowering::AsView(ValueId v) const {
  const PlacedValue& placed = values[v.index];
  const Buffer& buffer = program.buffers[placed.buffer];
  const TensorMeta& m = meta(v);
  auto address = AddressOf(placed.index, buffer.strides);
  if (!address.has_value()) {
    address = AddressOf(placed.index, buffer.strides, m.sizes, shapes());
    if (!address.has_value()) return std::nullopt;
  }
  View view{placed.buffer, m.dtype, m.sizes, {}, address->offset};
  const DimVector contiguous = ContiguousStrides(m.sizes);
  for (uint32_t d = 0; d < m.sizes.size(); ++d) {
    view.strides.push_back(m.sizes[d].Is(1) ? contiguous[d]
                                            : address->CoefficientOf(d));
  }
  return view;
}

std::vector<std::string> GraphLowering::OriginsOf(
    absl::string_view origin) const {
  std::vector<std::string> origins;
  for (const uint32_t node : client_nodes) {
    if (node >= graph.client_operators.size()) continue;
    const std::string& name = graph.client_operators[node];
    if (!absl::c_linear_search(origins, name)) origins.push_back(name);
  }
  if (origins.empty()) origins.emplace_back(origin);
  return origins;
}

View GraphLowering::CopyOf(ValueId v, absl::string_view origin) {
  return CopyOf(v, origin, ContiguousStrides(meta(v).sizes));
}

View GraphLowering::CopyOf(ValueId v, absl::string_view origin,
                           DimVector strides) {
  const TensorMeta& m = meta(v);
  NestWriter nest(*this, origin);
  const DimVector at = nest.Iterate(m.sizes);
  const BufferId buffer =
      AddBuffer(BufferKind::kTemporary, m.dtype, m.sizes, strides);
  nest.StoreTo(buffer, at, nest.Load(v, at));
  nest.Finish();
  return View{buffer, m.dtype, m.sizes, std::move(strides), 0};
}

DimVector NestWriter::Iterate(const DimVector& sizes, bool reduction) {
  DimVector index;
  axes_.reserve(axes_.size() + sizes.size());
  for (const SymExpr& size : sizes) {
    if (size.Is(1)) {
      index.push_back(0);
      continue;
    }
    index.push_back(SymExpr::Axis(static_cast<uint32_t>(axes_.size())));
    axes_.push_back({size, reduction});
  }
  return index;
}

SymExpr NestWriter::Compose(const SymExpr& index, const DimVector& at) const {
  Var var;
  if (index.is_constant()) return index;
  if (index.AsVar(&var)) {
    return var.kind == Var::Kind::kAxis ? at[var.index] : index;
  }
  return index.Substitute([&](Var v) {
    return v.kind == Var::Kind::kAxis ? at[v.index] : SymExpr::Of(v);
  });
}

ScalarId NestWriter::Load(ValueId v, const DimVector& at) {
  return MaskedLoad(v, at, kiln::Store::kNoMask);
}

ScalarId NestWriter::MaskedLoad(ValueId v, const DimVector& at, ScalarId mask) {
  const PlacedValue& placed = g_.values[v.index];
  DimVector index;
  for (const SymExpr& e : placed.index) index.push_back(Compose(e, at));
  const Buffer& buffer = g_.program.buffers[placed.buffer];
  const DType dtype = buffer.dtype;
  mask = HasElements(buffer, Guarded(mask));
  if (mask == kiln::Store::kNoMask) {
    return body.Load(placed.buffer, dtype, std::move(index));
  }
  return body.MaskedLoad(placed.buffer, dtype, std::move(index), mask);
}

ScalarId NestWriter::LoadBroadcast(ValueId v, const DimVector& at,
                                   DType dtype) {
  const DimVector& sizes = g_.meta(v).sizes;
  DimVector own;
  const size_t skip = at.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    own.push_back(sizes[d].Is(1) ? SymExpr(0) : at[skip + d]);
  }
  return LoadAs(v, own, dtype);
}

SymExpr NestWriter::IndexInto(const SymExpr& size, ScalarId index,
                              IndexRange range) {
  const ScalarId zero = body.Int(DType::kInt64, 0);
  const ScalarId count = body.Index(size);
  if (range == IndexRange::kTrusted) {
    const ScalarId wrapped = body.Op(ScalarOp::kAdd, index, count);
    return body.AsIndex(
        body.Where(body.Op(ScalarOp::kLt, index, zero), wrapped, index));
  }
  if (!g_.shapes().KnownLt(0, size)) {
    not_empty_ = Guarded(body.Op(ScalarOp::kGt, count, zero));
  }
  return body.AsIndex(body.CheckIndex(range == IndexRange::kWrapped
                                          ? ScalarOp::kWrapIndex
                                          : ScalarOp::kCheckIndex,
                                      index, count, kiln::Store::kNoMask));
}

ScalarId NestWriter::Guarded(ScalarId mask) {
  if (not_empty_ == kiln::Store::kNoMask) return mask;
  if (mask == kiln::Store::kNoMask) return not_empty_;
  return body.Op(ScalarOp::kAnd, not_empty_, mask);
}

ScalarId NestWriter::HasElements(const Buffer& buffer, ScalarId mask) {
  if (buffer.kind != BufferKind::kInput) return mask;
  for (size_t d = 0; d < buffer.sizes.size(); ++d) {
    const SymExpr& size = buffer.sizes[d];
    if (!buffer.strides[d].Is(0) || g_.shapes().KnownLt(0, size)) continue;
    const ScalarId some =
        body.Op(ScalarOp::kGt, body.Index(size), body.Int(DType::kInt64, 0));
    mask = mask == kiln::Store::kNoMask ? some
                                        : body.Op(ScalarOp::kAnd, some, mask);
  }
  return mask;
}

absl::StatusOr<ScalarId> NestWriter::Operand(const Argument& argument,
                                             const DimVector& at, DType dtype) {
  if (argument.is_value()) return LoadBroadcast(argument.value(), at, dtype);
  if (const auto* f = std::get_if<double>(&argument.v)) {
    return body.Float(dtype, *f);
  }
  if (const auto* b = std::get_if<bool>(&argument.v)) {
    return body.Int(dtype, *b ? 1 : 0);
  }
  if (const auto* e = std::get_if<SymExpr>(&argument.v)) {
    if (e->is_constant()) return body.Int(dtype, e->constant());
    return body.Cast(dtype, body.Index(*e));
  }
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat(origin_, ": an operand that is no number"));
}

void NestWriter::Store(ValueId result, const DimVector& at, ScalarId value,
                       StoreMode mode, ScalarId mask) {
  if (g_.uses[result.index] == 0) return;
  const BufferId buffer = g_.PlaceResult(result);
  StoreTo(buffer, at, value, mode, mask);
}

void NestWriter::StoreTo(BufferId buffer, DimVector at, ScalarId value,
                         StoreMode mode, ScalarId mask) {
  const DType dtype = g_.program.buffers[buffer].dtype;
  if (g_.options.emulate_precision_casts && IsHalf(dtype)) {
    // If the value is used without being read back, it must be what a read would give.
    value = body.Op(dtype == DType::kFloat16 ? ScalarOp::kRoundFloat16
                                             : ScalarOp::kRoundBFloat16,
                    body.Cast(DType::kFloat32, value));
  }
  stores_.push_back(
      {buffer, std::move(at), body.Cast(dtype, value), mode, Guarded(mask)});
}

void NestWriter::Finish() {
  if (stores_.empty()) return;
  LoopNest nest;
  nest.origins = g_.OriginsOf(origin_);
  nest.client_nodes.assign(g_.client_nodes.begin(), g_.client_nodes.end());
  nest.axes = std::move(axes_);
  nest.stores = std::move(stores_);
  nest.body = body.Take();
  DropDeadNodes(nest);
  g_.program.steps.push_back(SplitAtDivisions(std::move(nest), g_.shapes()));
}

}  // namespace kiln

// Views, which become index arithmetic and no code. For each operator a function maps the
// index of an element of the result to the index of the same element of the input; these
// functions are composed.

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// The index in the input of element Axis(0), Axis(1), … of result number `r`.
using ViewFn = absl::StatusOr<DimVector> (*)(NodeLowering& n, size_t r);

DimVector Own(NodeLowering& n, size_t r) {
  return OwnAxes(n.result_meta(r).sizes);
}

absl::StatusOr<DimVector> Same(NodeLowering& n, size_t r) { return Own(n, r); }

absl::StatusOr<DimVector> Reshape(NodeLowering& n, size_t r) {
  return ReshapeIndex(Own(n, r), n.result_meta(r).sizes, n.meta(0).sizes,
                      n.g.shapes());
}

absl::StatusOr<DimVector> Permute(NodeLowering& n, size_t r) {
  const DimVector own = Own(n, r);
  const auto dims = n.Dims(1, own.size());
  DimVector at(own.size());
  for (size_t k = 0; k < own.size(); ++k) at[dims[k]] = own[k];
  return at;
}

absl::StatusOr<DimVector> Transpose(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  if (at.size() < 2) return at;
  std::swap(at[n.Dim(1, at.size())], at[n.Dim(2, at.size())]);
  return at;
}

absl::StatusOr<DimVector> TransposeMatrix(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  if (at.size() == 2) std::swap(at[0], at[1]);
  return at;
}

absl::StatusOr<DimVector> Expand(NodeLowering& n, size_t r) {
  const DimVector own = Own(n, r);
  const DimVector& sizes = n.meta(0).sizes;
  DimVector at;
  const size_t skip = own.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    at.push_back(sizes[d].Is(1) ? SymExpr(0) : own[skip + d]);
  }
  return at;
}

// Squeezes and unsqueezes: dimensions of size 1 are added or removed, the others stay in
// order.
absl::StatusOr<DimVector> Unsqueeze(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  at.erase(at.begin() + static_cast<std::ptrdiff_t>(n.Dim(1, at.size())));
  return at;
}

absl::StatusOr<DimVector> Select(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  const DimVector& sizes = n.meta(0).sizes;
  const size_t dim = n.Dim(1, sizes.size());
  SymExpr index = n.arg(2).sym();
  if (n.g.shapes().KnownLt(index, 0)) index += sizes[dim];
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), index);
  return at;
}

// The start of a slice, wrapped and clamped as in PyTorch.
SymExpr SliceStart(NodeLowering& n, const Argument& start,
                   const SymExpr& size) {
  if (start.is_none()) return 0;
  SymExpr first = start.sym();
  const ShapeEnv& shapes = n.g.shapes();
  if (shapes.KnownLt(first, 0)) {
    first += size;
    if (shapes.KnownLt(first, 0)) return 0;
  }
  if (shapes.KnownLe(first, size)) return first;
  return Min(first, size);
}

absl::StatusOr<DimVector> Slice(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  const size_t dim = n.Dim(1, at.size());
  const SymExpr step = n.node.args.size() > 4 ? n.arg(4).sym() : SymExpr(1);
  at[dim] = at[dim] * step + SliceStart(n, n.arg(2), n.meta(0).sizes[dim]);
  return at;
}

absl::StatusOr<DimVector> Narrow(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  const size_t dim = n.Dim(1, at.size());
  at[dim] += SliceStart(n, n.arg(2), n.meta(0).sizes[dim]);
  return at;
}

// split, chunk, split_with_sizes: part r begins where part r - 1 ends.
absl::StatusOr<DimVector> Split(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  const size_t dim = n.Dim(2, at.size());
  for (size_t before = 0; before < r; ++before) {
    at[dim] += n.result_meta(before).sizes[dim];
  }
  return at;
}

absl::StatusOr<DimVector> Unbind(NodeLowering& n, size_t r) {
  DimVector at = Own(n, r);
  const size_t dim = n.Dim(1, n.meta(0).sizes.size());
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim),
            SymExpr(static_cast<int64_t>(r)));
  return at;
}

// unfold(self, dimension, size, step): windows, whose elements are the last dimension.
absl::StatusOr<DimVector> Unfold(NodeLowering& n, size_t) {
  DimVector at = OwnAxes(n.result_meta().sizes);
  const SymExpr within = at.back();
  at.pop_back();
  if (at.empty()) return at;
  const size_t dim = n.Dim(1, at.size());
  at[dim] = at[dim] * n.arg(3).sym() + within;
  return at;
}

absl::StatusOr<DimVector> Diagonal(NodeLowering& n, size_t r) {
  const DimVector own = Own(n, r);
  DimVector at(n.meta(0).sizes.size());
  const int64_t offset = n.Int(1);
  const size_t first = n.Dim(2, at.size());
  const size_t second = n.Dim(3, at.size());
  size_t k = 0;
  for (size_t d = 0; d < at.size(); ++d) {
    if (d != first && d != second) at[d] = own[k++];
  }
  at[first] = own[k] + (offset < 0 ? -offset : 0);
  at[second] = own[k] + (offset > 0 ? offset : 0);
  return at;
}

// Strides over the memory of the input. Supported if the buffer is contiguous.
absl::Status AsStrided(NodeLowering& n) {
  const PlacedValue from = n.g.values[n.tensor(0).index];
  const Buffer& buffer = n.g.program.buffers[from.buffer];
  const std::optional<View> base = n.g.AsView(n.tensor(0));
  if (buffer.strides != ContiguousStrides(buffer.sizes) || !base.has_value()) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "aten.as_strided.default: of memory that is not "
                     "contiguous");
  }
  // Offsets count from the start of the storage. The buffer may begin later.
  const TensorMeta& m = n.result_meta();
  const SymExpr address = m.offset - n.meta(0).offset + base->offset +
                          ElementAt(OwnAxes(m.sizes), m.strides);
  PlacedValue& to = n.g.values[n.result().index];
  const DimVector one = {Product(buffer.sizes)};
  to.index = ReshapeIndex({address}, one, buffer.sizes, n.g.shapes());
  to.buffer = from.buffer;
  to.placed = true;
  return absl::OkStatus();
}

struct ViewRow {
  absl::string_view name;
  ViewFn at;
};

constexpr ViewRow kViews[] = {
    {"aten.view.default", Reshape},
    {"aten._unsafe_view.default", Reshape},
    {"aten.reshape.default", Reshape},
    {"aten._reshape_alias.default", Reshape},
    {"aten.flatten.using_ints", Reshape},
    {"aten.unflatten.int", Reshape},
    {"aten.view_as.default", Reshape},
    {"aten.squeeze.default", Reshape},
    {"aten.squeeze.dim", Reshape},
    {"aten.squeeze.dims", Reshape},
    {"aten.permute.default", Permute},
    {"aten.transpose.int", Transpose},
    {"aten.swapaxes.default", Transpose},
    {"aten.swapdims.default", Transpose},
    {"aten.t.default", TransposeMatrix},
    {"aten.numpy_T.default", TransposeMatrix},
    {"aten.expand.default", Expand},
    {"aten.expand_as.default", Expand},
    {"aten.broadcast_to.default", Expand},
    {"aten.unsqueeze.default", Unsqueeze},
    {"aten.select.int", Select},
    {"aten.slice.Tensor", Slice},
    {"aten.narrow.default", Narrow},
    {"aten.split.Tensor", Split},
    {"aten.split.sizes", Split},
    {"aten.split_with_sizes.default", Split},
    {"aten.chunk.default", Split},
    {"aten.tensor_split.sections", Split},
    {"aten.unsafe_split.Tensor", Split},
    {"aten.unsafe_chunk.default", Split},
    {"aten.unbind.int", Unbind},
    {"aten.diagonal.default", Diagonal},
    {"aten.unfold.default", Unfold},
    {"aten.detach.default", Same},
    {"aten.alias.default", Same},
    {"aten.lift_fresh.default", Same},
    {"aten.view.dtype", Same},
};

ViewFn FindView(absl::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new absl::flat_hash_map<absl::string_view, ViewFn>;
    for (const ViewRow& row : kViews) map->emplace(row.name, row.at);
    return map;
  }();
  const auto found = kByName->find(name);
  return found == kByName->end() ? nullptr : found->second;
}

}  // namespace

absl::Status LowerView(NodeLowering& n) {
  if (n.node.op->name == "aten.as_strided.default") return AsStrided(n);
  const ViewFn at_fn = FindView(n.node.op->name);
  if (at_fn == nullptr) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(n.node.op->name, ": a view without index"));
  }
  const PlacedValue from = n.g.values[n.tensor(0).index];
  for (size_t r = 0; r < n.node.results.size(); ++r) {
    const TensorMeta& m = n.result_meta(r);
    if (m.dtype != n.meta(0).dtype) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       absl::StrCat(n.node.op->name, ": to another dtype"));
    }
    ASSIGN_OR_RETURN(const DimVector at, at_fn(n, r));
    PlacedValue& to = n.g.values[n.node.results[r].index];
    to.buffer = from.buffer;
    to.placed = true;
    to.index.clear();
    for (const SymExpr& e : from.index) {
      SymExpr composed = e;
      if (!e.is_constant()) {
        composed = e.Substitute([&](Var v) {
          return v.kind == Var::Kind::kAxis ? at[v.index] : SymExpr::Of(v);
        });
      }
      to.index.push_back(SimplifyIndex(composed, m.sizes, n.g.shapes()));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln

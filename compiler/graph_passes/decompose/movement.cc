// Joining and selecting that other operators say.

#include <string>
#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

Parts Stack(Decomposition& d) {
  Emitter& e = d.e;
  static const OpDef& kCat = KnownOp("aten.cat.default");
  Argument::List pieces;
  int64_t dim = 0;
  for (ValueId v : d.Tensors("tensors")) {
    dim = d.Int("dim");
    if (dim < 0) dim += e.rank(v) + 1;
    pieces.emplace_back(e.Unsqueeze(v, dim));
  }
  return {e.Call(kCat, {std::move(pieces), dim})};
}

// The last `shift` elements of `dim` come first.
ValueId RolledBy(Emitter& e, ValueId x, int64_t dim, int64_t shift) {
  static const OpDef& kCat = KnownOp("aten.cat.default");
  const int64_t size = e.meta(x).sizes[dim].constant();
  shift = size == 0 ? 0 : ((shift % size) + size) % size;
  if (shift == 0) return x;
  Argument::List pieces;
  pieces.emplace_back(e.Slice(x, dim, size - shift, size, 1));
  pieces.emplace_back(e.Slice(x, dim, 0, size - shift, 1));
  return e.Call(kCat, {std::move(pieces), dim});
}

Parts Roll(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const DimVector sizes = e.meta(x).sizes;
  for (const SymExpr& size : sizes) {
    if (!size.is_constant()) return d.Unsupported("symbolic sizes");
  }
  const std::vector<int64_t> shifts = d.FixedInts("shifts");
  const std::vector<int64_t> dims = d.FixedInts("dims");
  if (dims.empty()) {
    const ValueId flat = e.Reshape(x, {Product(sizes)});
    return {e.Reshape(RolledBy(e, flat, 0, shifts[0]), sizes)};
  }
  ValueId y = x;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t dim = dims[k] < 0 ? dims[k] + e.rank(x) : dims[k];
    y = RolledBy(e, y, dim, shifts[k]);
  }
  return {y};
}

// Only where the view is all of the memory, row by row: then the source is the
// result under other sizes.
Parts AsStridedScatter(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId self = d.Tensor("self");
  const TensorMeta whole = e.meta(self);
  const DimVector sizes = d.Ints("size");
  const bool from_start =
      !d.Has("storage_offset") || d.Get("storage_offset").sym().Is(0);
  if (!from_start || whole.strides != ContiguousStrides(whole.sizes) ||
      d.Ints("stride") != ContiguousStrides(sizes) ||
      Product(sizes) != whole.numel()) {
    return d.Unsupported("a view that is not all of the memory");
  }
  return {e.Reshape(d.Tensor("src"), whole.sizes)};
}

// self with `values` put at places `index` of one dim. A 0-d tensor is one of
// one element meanwhile.
Parts PutAlong(Decomposition& d, ValueId values) {
  Emitter& e = d.e;
  const ValueId self = d.Tensor("self"), index = d.Tensor("index");
  const int rank = e.rank(self);
  const ValueId base = rank == 0 ? e.View(self, {1}) : self;
  Argument::List indices(rank == 0 ? 0 : d.Dim("dim", rank));
  indices.emplace_back(e.rank(index) == 0 ? e.View(index, {1}) : index);
  const ValueId y = e.Call("aten.index_put.default",
                           {base, std::move(indices), values, false});
  return {rank == 0 ? e.View(y, {}) : y};
}

Parts IndexFill(Decomposition& d) {
  const DType dtype = d.e.dtype(d.Tensor("self"));
  const Argument& value = d.Get("value");
  return PutAlong(d, value.is_value() ? d.e.ToDType(value.value(), dtype)
                                      : d.e.Full({}, value, dtype));
}

Parts IndexCopy(Decomposition& d) { return PutAlong(d, d.Tensor("source")); }

// aten.expand_copy is aten.expand in memory of its own, and so on.
Parts CopyOfView(Decomposition& d) {
  Emitter& e = d.e;
  std::string view(d.op().name);
  view.erase(view.find("_copy"), std::string("_copy").size());
  Emitter::Args args;
  for (const Param& param : d.op().schema.params) {
    args.push_back(d.Get(param.name));
  }
  Parts parts;
  for (ValueId v : e.CallAll(KnownOp(view), std::move(args))) {
    parts.push_back(e.Contiguous(v));
  }
  return parts;
}

constexpr DecomposeRow kRows[] = {
    {"aten.alias_copy.default", CopyOfView},
    {"aten.detach_copy.default", CopyOfView},
    {"aten.as_strided_copy.default", CopyOfView},
    {"aten.diagonal_copy.default", CopyOfView},
    {"aten.expand_copy.default", CopyOfView},
    {"aten.narrow_copy.default", CopyOfView},
    {"aten.permute_copy.default", CopyOfView},
    {"aten.select_copy.int", CopyOfView},
    {"aten.slice_copy.Tensor", CopyOfView},
    {"aten.split_with_sizes_copy.default", CopyOfView},
    {"aten.squeeze_copy.default", CopyOfView},
    {"aten.squeeze_copy.dim", CopyOfView},
    {"aten.squeeze_copy.dims", CopyOfView},
    {"aten.t_copy.default", CopyOfView},
    {"aten.transpose_copy.int", CopyOfView},
    {"aten.unbind_copy.int", CopyOfView},
    {"aten.unfold_copy.default", CopyOfView},
    {"aten.unsqueeze_copy.default", CopyOfView},
    {"aten.view_copy.default", CopyOfView},
    {"aten.stack.default", Stack},
    {"aten.roll.default", Roll},
    {"aten.as_strided_scatter.default", AsStridedScatter},
    {"aten.index_fill.int_Scalar", IndexFill},
    {"aten.index_fill.int_Tensor", IndexFill},
    {"aten.index_copy.default", IndexCopy},
};

}  // namespace

absl::Span<const DecomposeRow> MovementDecompositions() { return kRows; }

}  // namespace kiln

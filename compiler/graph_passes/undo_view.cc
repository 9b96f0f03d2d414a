#include "compiler/graph_passes/undo_view.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/op_table.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// One view that was written through.
struct WrittenView {
  const Node& node;
  uint32_t result;
  ValueId parent;
  ValueId value;
};

using UndoFn = ValueId (*)(const WrittenView& w, Emitter& e);

ValueId Whole(const WrittenView& w, Emitter&) { return w.value; }

// Elements in row-major order are the same ones.
ValueId Reshaped(const WrittenView& w, Emitter& e) {
  const DimVector sizes = e.meta(w.parent).sizes;
  return e.Reshape(w.value, sizes);
}

ValueId Transposed(const WrittenView& w, Emitter& e) {
  return e.Call(*w.node.op, {w.value, w.node.args[1], w.node.args[2]});
}

ValueId MatrixTransposed(const WrittenView& w, Emitter& e) {
  return e.Call(*w.node.op, {w.value});
}

ValueId Permuted(const WrittenView& w, Emitter& e) {
  const Argument::List& dims = w.node.args[1].list();
  const int64_t rank = static_cast<int64_t>(dims.size());
  std::vector<int64_t> inverse(dims.size());
  for (int64_t k = 0; k < rank; ++k) {
    const int64_t d = dims[k].sym().constant();
    inverse[d < 0 ? d + rank : d] = k;
  }
  return e.Permute(w.value, inverse);
}

// The scatter form takes the view's arguments after the two tensors.
template <int count>
ValueId Scattered(const WrittenView& w, Emitter& e, absl::string_view op) {
  Emitter::Args args = {w.parent, w.value};
  for (int k = 1; k <= count; ++k) args.push_back(w.node.args[k]);
  return e.Call(op, std::move(args));
}

ValueId Sliced(const WrittenView& w, Emitter& e) {
  return Scattered<4>(w, e, "aten.slice_scatter.default");
}

ValueId Selected(const WrittenView& w, Emitter& e) {
  return Scattered<2>(w, e, "aten.select_scatter.default");
}

ValueId Strided(const WrittenView& w, Emitter& e) {
  return Scattered<3>(w, e, "aten.as_strided_scatter.default");
}

// A piece of split: it begins where those before it end.
ValueId Piece(const WrittenView& w, Emitter& e, const Argument& dim,
              const SymExpr& start) {
  static const OpDef& kScatter = KnownOp("aten.slice_scatter.default");
  const int64_t d = dim.sym().constant();
  const int64_t at = d < 0 ? d + e.rank(w.value) : d;
  const SymExpr end = start + e.meta(w.value).sizes[at];
  return e.Call(kScatter, {w.parent, w.value, at, start, end, 1});
}

ValueId SplitPiece(const WrittenView& w, Emitter& e) {
  const SymExpr size = w.node.args[1].sym();
  return Piece(w, e, w.node.args[2], size * SymExpr(w.result));
}

ValueId SizedPiece(const WrittenView& w, Emitter& e) {
  SymExpr start = 0;
  for (uint32_t k = 0; k < w.result; ++k) {
    start += w.node.args[1].list()[k].sym();
  }
  return Piece(w, e, w.node.args[2], start);
}

ValueId Unbound(const WrittenView& w, Emitter& e) {
  return e.Call(
      "aten.select_scatter.default",
      {w.parent, w.value, w.node.args[1], static_cast<int64_t>(w.result)});
}

struct UndoRow {
  absl::string_view view;
  UndoFn undo;
};

constexpr UndoRow kRows[] = {
    {"aten.alias.default", Whole},
    {"aten.detach.default", Whole},
    {"aten.view.default", Reshaped},
    {"aten._unsafe_view.default", Reshaped},
    {"aten.reshape.default", Reshaped},
    {"aten.unsqueeze.default", Reshaped},
    {"aten.squeeze.default", Reshaped},
    {"aten.squeeze.dim", Reshaped},
    {"aten.squeeze.dims", Reshaped},
    {"aten.transpose.int", Transposed},
    {"aten.t.default", MatrixTransposed},
    {"aten.permute.default", Permuted},
    {"aten.slice.Tensor", Sliced},
    {"aten.select.int", Selected},
    {"aten.as_strided.default", Strided},
    {"aten.split.Tensor", SplitPiece},
    {"aten.split_with_sizes.default", SizedPiece},
    {"aten.unbind.int", Unbound},
};

std::vector<UndoFn> JoinRows() {
  std::vector<UndoFn> table(AllOps().size(), nullptr);
  for (const UndoRow& row : kRows) {
    const OpDef* op = FindOp(row.view);
    if (op != nullptr) table[op->index] = row.undo;
  }
  return table;
}

}  // namespace

absl::StatusOr<ValueId> UndoView(const Node& view, uint32_t result,
                                 ValueId parent, ValueId value, Emitter& e) {
  static const std::vector<UndoFn>* const kTable =
      new std::vector<UndoFn>(JoinRows());
  const UndoFn undo = (*kTable)[view.op->index];
  if (undo == nullptr) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("a write through a view of ", view.op->name));
  }
  const ValueId whole = undo({view, result, parent, value}, e);
  RETURN_IF_ERROR(e.status());
  return whole;
}

}  // namespace kiln

#include "compiler/schedule/split_contraction.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/loop/body_builder.h"

namespace kiln {
namespace {

std::optional<ScalarId> Keep(const ScalarNode&) { return std::nullopt; }

std::vector<SymExpr> AxesOf(const Contraction& c) {
  std::vector<SymExpr> axes;
  for (uint32_t k = 0; k < c.extents.size(); ++k)
    axes.push_back(SymExpr::Axis(k));
  return axes;
}

// Restricts the operands to `points` of `axis`.
void Narrow(Contraction& c, size_t axis, const Points& points) {
  const SymExpr along = SymExpr::Axis(static_cast<uint32_t>(axis));
  c.extents[axis] = points.count;
  for (ContractionOperand& operand : c.operands) {
    for (size_t d = 0; d < operand.index.size(); ++d) {
      if (!(operand.index[d] == along)) continue;
      operand.view.sizes[d] = points.count;
      operand.view.offset += operand.view.strides[d] * points.first;
      operand.view.strides[d] *= points.step;
    }
  }
}

// A contraction that stores the plain sum, without the epilogue, in a new temporary.
Contraction SumAlone(const Contraction& c, LoopProgram& program) {
  Contraction sum = c;
  View& view = sum.result().view;
  Buffer buffer;
  buffer.name = absl::StrCat("buf", program.buffers.size());
  buffer.dtype = view.dtype;
  buffer.sizes = view.sizes;
  buffer.strides = ContiguousStrides(view.sizes);
  view.buffer = static_cast<BufferId>(program.buffers.size());
  view.strides = buffer.strides;
  view.offset = 0;
  program.buffers.push_back(std::move(buffer));

  BodyBuilder body;
  const std::vector<ScalarId> ids =
      CopyBody(c.body, AxesOf(c), Store::kNoMask, Keep, body);
  sum.value = body.Cast(view.dtype, ids[SumOf(c)]);
  sum.body = body.Take();
  DropDeadNodes(sum);
  return sum;
}

// Adds to each sum the element of `more` at the same place.
void AddToSum(const View& more, Contraction& c) {
  const ScalarId sum = SumOf(c);
  const std::vector<SymExpr> axes = AxesOf(c);
  BodyBuilder body;
  std::vector<ScalarId> ids(c.body.size());
  for (ScalarId i = 0; i < c.body.size(); ++i) {
    ScalarNode node = c.body[i];
    for (ScalarId& arg : node.args) arg = ids[arg];
    for (SymExpr& e : node.index) e = RewriteIndex(e, axes, ids, body);
    ids[i] = body.Add(std::move(node));
    if (i != sum) continue;
    const DimVector& at = c.result().index;
    const ScalarId load = body.Load(more.buffer, more.dtype, at);
    ids[i] =
        body.Op(ScalarOp::kAdd, body.Cast(body.dtype(ids[i]), load), ids[i]);
  }
  c.value = ids[c.value];
  c.body = body.Take();
}

}  // namespace

Contraction PartOf(const Contraction& product, size_t axis,
                   const Points& points) {
  Contraction part = product;
  Narrow(part, axis, points);
  std::vector<SymExpr> axes = AxesOf(product);
  axes[axis] *= points.step;
  axes[axis] += points.first;
  BodyBuilder body;
  part.value =
      CopyBody(product.body, axes, Store::kNoMask, Keep, body)[product.value];
  part.body = body.Take();
  return part;
}

std::pair<Contraction, Contraction> SplitResult(const Contraction& product,
                                                size_t axis, int64_t at) {
  const int64_t rest = product.extents[axis].constant() - at;
  return {PartOf(product, axis, {.count = at}),
          PartOf(product, axis, {.first = at, .count = rest})};
}

std::pair<Contraction, Contraction> SplitSum(const Contraction& product,
                                             int64_t at, LoopProgram& program) {
  const size_t axis = product.extents.size() - 1;
  const int64_t rest = product.extents[axis].constant() - at;
  Contraction first = SumAlone(product, program), second = product;
  Narrow(first, axis, {.first = at, .count = rest});
  Narrow(second, axis, {.count = at});
  AddToSum(first.result().view, second);
  return {std::move(first), std::move(second)};
}

}  // namespace kiln

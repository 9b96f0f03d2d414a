#include "compiler/loop/loop_text.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/tensor_meta.h"

namespace kiln {

std::string DimsText(const DimVector& dims) {
  return absl::StrCat("[",
                      absl::StrJoin(dims, ", ",
                                    [](std::string* out, const SymExpr& e) {
                                      absl::StrAppend(out, e.ToString());
                                    }),
                      "]");
}

std::string NumberText(double f) {
  if (std::isnan(f)) return "nan";
  if (std::isinf(f)) return f > 0 ? "inf" : "-inf";
  for (int digits = 6; digits <= 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, f);
    if (std::strtod(text.c_str(), nullptr) == f) return text;
  }
  return absl::StrFormat("%a", f);
}

namespace {

std::string ElementText(DType dtype, Number number) {
  return IsFloat(dtype) ? NumberText(number.f) : absl::StrCat(number.i);
}

std::string Access(const std::vector<Buffer>& buffers, BufferId buffer,
                   const DimVector& index) {
  return absl::StrCat(buffers[buffer].name, DimsText(index));
}

std::string NodeText(const ScalarNode& node,
                     const std::vector<Buffer>& buffers) {
  std::string out =
      absl::StrCat(ScalarOpName(node.op), " ", ShortName(node.dtype));
  switch (node.op) {
    case ScalarOp::kConstant:
      return absl::StrCat(out, " ", ElementText(node.dtype, node.number));
    case ScalarOp::kIndex:
      return absl::StrCat(out, " ", node.index[0].ToString());
    case ScalarOp::kLoad:
      absl::StrAppend(&out, " ", Access(buffers, node.buffer, node.index));
      if (!node.args.empty()) {
        absl::StrAppend(&out, " where t", node.args[0], " else ",
                        ElementText(node.dtype, node.number));
      }
      if (node.last_read) absl::StrAppend(&out, " last");
      return out;
    default:  // the rest are operations on nodes
      break;
  }
  if (!node.args.empty()) {
    absl::StrAppend(
        &out, " ",
        absl::StrJoin(node.args, ", ", [](std::string* text, ScalarId id) {
          absl::StrAppend(text, "t", id);
        }));
  }
  if (node.op == ScalarOp::kReduce || node.op == ScalarOp::kScan ||
      node.op == ScalarOp::kSort) {
    absl::StrAppend(&out, " by ", ReduceOpName(node.reduce));
  }
  if (node.op == ScalarOp::kReduceResult || node.op == ScalarOp::kRandom ||
      node.op == ScalarOp::kSort || node.op == ScalarOp::kTally ||
      node.op == ScalarOp::kFactor) {
    absl::StrAppend(&out, " number ", node.number.i);
  }
  return out;
}

absl::string_view KindName(BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput:
      return "in";
    case BufferKind::kConstant:
      return "const";
    case BufferKind::kTemporary:
      return "tmp";
    case BufferKind::kOutput:
      return "out";
    case BufferKind::kCounters:
      return "counters";
  }
  return "?";
}

}  // namespace

std::string ToText(const Buffer& buffer) {
  std::string out =
      absl::StrCat(KindName(buffer.kind), " ", buffer.name, " : ",
                   ShortName(buffer.dtype), DimsText(buffer.sizes));
  if (buffer.strides != ContiguousStrides(buffer.sizes)) {
    absl::StrAppend(&out, " strides ", DimsText(buffer.strides));
  }
  if (!buffer.offset.Is(0)) {
    absl::StrAppend(&out, " offset ", buffer.offset.ToString());
  }
  if (buffer.kind == BufferKind::kInput ||
      buffer.kind == BufferKind::kConstant) {
    absl::StrAppend(&out, " index ", buffer.index);
  }
  if (buffer.alignment_bytes != Buffer().alignment_bytes) {
    absl::StrAppend(&out, " align ", buffer.alignment_bytes);
  }
  if (buffer.donated) absl::StrAppend(&out, " donated");
  if (!buffer.assertion.empty())
    absl::StrAppend(&out, " asserts \"", absl::CEscape(buffer.assertion), "\"");
  return out;
}

std::string ToText(const View& view, const std::vector<Buffer>& buffers) {
  return absl::StrCat("view ", buffers[view.buffer].name, " ",
                      ShortName(view.dtype), " ", DimsText(view.sizes),
                      " strides ", DimsText(view.strides), " offset ",
                      view.offset.ToString());
}

std::string ToText(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   int indent) {
  const std::string pad(static_cast<size_t>(indent), ' ');
  std::string out =
      absl::StrCat(pad, "nest ", absl::StrJoin(nest.origins, "+"), " [");
  for (size_t k = 0; k < nest.axes.size(); ++k) {
    absl::StrAppend(&out, k > 0 ? ", " : "",
                    nest.axes[k].reduction ? "reduce " : "", "i", k, " in ",
                    nest.axes[k].extent.ToString());
  }
  absl::StrAppend(&out, "] {\n");
  for (size_t t = 0; t < nest.body.size(); ++t) {
    absl::StrAppend(&out, pad, "  t", t, " = ", NodeText(nest.body[t], buffers),
                    "\n");
  }
  for (const Store& store : nest.stores) {
    absl::StrAppend(&out, pad, "  ", Access(buffers, store.buffer, store.index),
                    store.mode == StoreMode::kAtomicAdd   ? " += t"
                    : store.mode == StoreMode::kAtomicMax ? " max= t"
                    : store.mode == StoreMode::kAtomicMul ? " *= t"
                                                          : " = t",
                    store.value);
    if (store.mode == StoreMode::kSum) {
      absl::StrAppend(&out, " summed over ", store.stretch);
    }
    if (store.mask != Store::kNoMask) {
      absl::StrAppend(&out, " where t", store.mask);
    }
    absl::StrAppend(&out, "\n");
  }
  return absl::StrCat(out, pad, "}\n");
}

std::string SymbolsText(const ShapeEnv& shapes) {
  const std::string list = absl::StrJoin(
      shapes.symbols, ", ", [&](std::string* out, const SymbolFacts& s) {
        absl::StrAppend(out, "s", &s - shapes.symbols.data(), " in [",
                        s.range.min, ", ", s.range.max, "] = ", s.hint);
      });
  return absl::StrCat("(", list, ")");
}

std::string ViewsText(absl::Span<const View> views,
                      const std::vector<Buffer>& buffers) {
  return absl::StrCat("(",
                      absl::StrJoin(views, "; ",
                                    [&](std::string* out, const View& view) {
                                      absl::StrAppend(out,
                                                      ToText(view, buffers));
                                    }),
                      ")");
}

std::string StepText(const RowOrder& order,
                     const std::vector<Buffer>& buffers) {
  const View results[] = {order.values, order.places};
  return absl::StrCat(
      "order ", OrderName(order.how), " from ", order.origin, " largest ",
      order.largest ? 1 : 0, " k ", order.k.ToString(), " ",
      ViewsText({&order.x, 1}, buffers), " -> ", ViewsText(results, buffers));
}

std::string ToText(const Contraction& contraction,
                   const std::vector<Buffer>& buffers, int indent) {
  const std::string pad(static_cast<size_t>(indent), ' ');
  std::string out = absl::StrCat(pad, FormName(contraction.form), " ",
                                 absl::StrJoin(contraction.origins, "+"), " [");
  for (size_t k = 0; k < contraction.extents.size(); ++k) {
    absl::StrAppend(&out, k > 0 ? ", " : "", AxisName(contraction, k), " i", k,
                    " in ", contraction.extents[k].ToString());
  }
  absl::StrAppend(&out, "] {\n");
  for (size_t k = 0; k < contraction.operands.size(); ++k) {
    const ContractionOperand& operand = contraction.operands[k];
    absl::StrAppend(&out, pad, "  ", OperandName(k), " ",
                    ToText(operand.view, buffers), " at ",
                    DimsText(operand.index), "\n");
  }
  for (size_t t = 0; t < contraction.body.size(); ++t) {
    absl::StrAppend(&out, pad, "  t", t, " = ",
                    NodeText(contraction.body[t], buffers), "\n");
  }
  absl::StrAppend(&out, pad, "  ", OperandName(contraction.written), " = t",
                  contraction.value, "\n");
  if (contraction.allow_tf32) absl::StrAppend(&out, pad, "  allow tf32\n");
  if (contraction.allow_reduced_sums)
    absl::StrAppend(&out, pad, "  allow reduced_sums\n");
  if (contraction.deterministic)
    absl::StrAppend(&out, pad, "  deterministic\n");
  return absl::StrCat(out, pad, "}\n");
}

std::string ToText(const Attention& attention,
                   const std::vector<Buffer>& buffers, int indent) {
  const std::string pad(static_cast<size_t>(indent), ' ');
  std::string out = absl::StrCat(
      pad, attention.backward ? "attention_backward " : "attention ",
      attention.origin, " [");
  for (size_t k = 0; k < Attention::kAxes; ++k) {
    absl::StrAppend(&out, k > 0 ? ", " : "", AxisLetters().substr(k, 1), " ",
                    attention.extents[k].ToString());
  }
  absl::StrAppend(&out, "] {\n");
  for (size_t place = 0; place < Attention::kPlaces; ++place) {
    if (!attention.arrays[place].has_value()) continue;
    absl::StrAppend(&out, pad, "  ", PlaceName(place), " ",
                    ToText(*attention.arrays[place], buffers), "\n");
  }
  absl::StrAppend(&out, pad, "  scale ", NumberText(attention.scale), "\n");
  if (attention.causal != Attention::Causal::kNone)
    absl::StrAppend(&out, pad, "  causal ", CausalName(attention.causal), "\n");
  if (attention.window > 0)
    absl::StrAppend(&out, pad, "  window ", attention.window, "\n");
  if (attention.dropout > 0)
    absl::StrAppend(&out, pad, "  dropout ", NumberText(attention.dropout),
                    "\n");
  if (attention.own) absl::StrAppend(&out, pad, "  own\n");
  return absl::StrCat(out, pad, "}\n");
}

std::string StepText(const Fill& fill, const std::vector<Buffer>& buffers) {
  return absl::StrCat("fill ", buffers[fill.buffer].name, " = ", fill.value.i);
}
std::string OutputText(const ProgramOutput& output,
                       const std::vector<Buffer>& buffers) {
  if (const auto* view = std::get_if<View>(&output.what)) {
    return ToText(*view, buffers);
  }
  if (const auto* e = std::get_if<SymExpr>(&output.what)) {
    return absl::StrCat("sym ", e->ToString());
  }
  return "none";
}

std::string ToText(const LoopProgram& program) {
  std::string out = absl::StrCat("loops @", program.name,
                                 SymbolsText(program.shapes), " {\n");
  for (const Buffer& buffer : program.buffers) {
    absl::StrAppend(&out, "  ", ToText(buffer), "\n");
  }
  for (const LoopStep& step : program.steps) {
    if (const auto* nest = std::get_if<LoopNest>(&step)) {
      absl::StrAppend(&out, ToText(*nest, program.buffers, 2));
    } else if (const auto* sums = std::get_if<Contraction>(&step)) {
      absl::StrAppend(&out, ToText(*sums, program.buffers, 2));
    } else if (const auto* attention = std::get_if<Attention>(&step)) {
      absl::StrAppend(&out, ToText(*attention, program.buffers, 2));
    } else if (const auto* order = std::get_if<RowOrder>(&step)) {
      absl::StrAppend(&out, "  ", StepText(*order, program.buffers), "\n");
    } else {
      absl::StrAppend(&out, "  ",
                      StepText(std::get<Fill>(step), program.buffers), "\n");
    }
  }
  for (const uint32_t input : program.mutated_inputs) {
    absl::StrAppend(&out, "  mutates ", input, "\n");
  }
  for (const ProgramOutput& output : program.outputs) {
    absl::StrAppend(&out, "  return ", OutputText(output, program.buffers),
                    "\n");
  }
  return absl::StrCat(out, "}\n");
}

}  // namespace kiln

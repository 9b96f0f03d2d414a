#include "compiler/loop/statement_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/graph/tensor_meta.h"

namespace kiln {

ShapeEnv StatementReader::ReadSymbols(LineReader& in) {
  ShapeEnv shapes;
  in.Expect("(");
  if (in.Take(")")) return shapes;
  do {
    SymbolFacts symbol;
    symbol.name = in.Word("a symbol or ')'");
    in.Expect("in [");
    symbol.range.min = in.Int();
    in.Expect(",");
    symbol.range.max = in.Int();
    in.Expect("]");
    in.Expect("=");
    symbol.hint = in.Int();
    shapes.symbols.push_back(std::move(symbol));
  } while (in.Take(","));
  in.Expect(")");
  return shapes;
}

BufferId StatementReader::ReadBufferName(LineReader& in) {
  const absl::string_view place = in.rest();
  const std::string name = in.Word("a buffer");
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  in.FailAt(place, "a buffer that is declared above");
  return 0;
}

bool StatementReader::TakeBuffer(LineReader& in) {
  Buffer buffer;
  if (in.Take("in ")) {
    buffer.kind = BufferKind::kInput;
  } else if (in.Take("const ")) {
    buffer.kind = BufferKind::kConstant;
  } else if (in.Take("tmp ")) {
    buffer.kind = BufferKind::kTemporary;
  } else if (in.Take("out ")) {
    buffer.kind = BufferKind::kOutput;
  } else if (in.Take("counters ")) {
    buffer.kind = BufferKind::kCounters;
  } else {
    return false;
  }
  const absl::string_view place = in.rest();
  buffer.name = in.Word("a buffer's name");
  in.Expect(":");
  buffer.dtype = in.Type();
  buffer.sizes = in.Dims();
  buffer.strides = ContiguousStrides(buffer.sizes);
  if (in.Take("strides")) buffer.strides = in.Dims();
  if (in.Take("offset")) buffer.offset = in.Expr();
  if (in.Take("index")) buffer.index = static_cast<uint32_t>(in.Int());
  if (in.Take("align")) {
    buffer.alignment_bytes = static_cast<uint32_t>(in.Int());
  }
  buffer.donated = in.Take("donated");
  if (in.Take("asserts")) buffer.assertion = in.Quoted();
  const auto number = static_cast<BufferId>(buffers_.size());
  if (!numbers_.emplace(buffer.name, number).second) {
    in.FailAt(place, "a name that no other buffer has");
  }
  buffers_.push_back(std::move(buffer));
  return true;
}

void StatementReader::BeginNest(LineReader& in) {
  nest_ = LoopNest();
  nest_.origins = absl::StrSplit(in.Word("the operators of a nest"), '+');
  in.Expect("[");
  while (in.ok() && !in.Take("]")) {
    Axis axis;
    axis.reduction = in.Take("reduce ");
    in.Expect(absl::StrCat("i", nest_.axes.size(), " in "));
    axis.extent = in.Expr();
    nest_.axes.push_back(std::move(axis));
    if (!in.Take(",") && in.rest().substr(0, 1) != "]") in.Fail("',' or ']'");
  }
  in.Expect("{");
  in_nest_ = in.ok();
}

void StatementReader::ReadArguments(LineReader& in, ScalarNode& node) {
  while (in.ok() && in.rest().substr(0, 1) == "t") {
    node.args.push_back(in.Node());
    if (!in.Take(",")) break;
  }
  if (in.Take("by ")) {
    const absl::string_view place = in.rest();
    const auto reduce = ReduceOpFromName(in.Word("how to combine"));
    if (!reduce.has_value()) in.FailAt(place, "how to combine");
    node.reduce = reduce.value_or(ReduceOp::kNone);
  }
  if (in.Take("number ")) node.number.i = in.Int();
}

void StatementReader::ReadNode(LineReader& in, std::vector<ScalarNode>& body) {
  in.Expect(absl::StrCat("t", body.size(), " ="));
  const absl::string_view place = in.rest();
  const auto op = ScalarOpFromName(in.Word("an operation"));
  if (!op.has_value()) {
    in.FailAt(place, "an operation");
    return;
  }
  ScalarNode node{*op, in.Type()};
  if (*op == ScalarOp::kConstant) {
    node.number = in.NumberOf(node.dtype);
  } else if (*op == ScalarOp::kIndex) {
    node.index.push_back(in.Expr());
  } else if (*op == ScalarOp::kLoad) {
    node.buffer = ReadBufferName(in);
    node.index = in.Dims();
    if (in.Take("where ")) {
      node.args.push_back(in.Node());
      in.Expect("else");
      node.number = in.NumberOf(node.dtype);
    }
    node.last_read = in.Take("last");
  } else {
    ReadArguments(in, node);
  }
  body.push_back(std::move(node));
}

void StatementReader::ReadStore(LineReader& in) {
  Store store;
  store.buffer = ReadBufferName(in);
  store.index = in.Dims();
  if (in.Take("+=")) {
    store.mode = StoreMode::kAtomicAdd;
  } else if (in.Take("*=")) {
    store.mode = StoreMode::kAtomicMul;
  } else if (in.Take("max=")) {
    store.mode = StoreMode::kAtomicMax;
  } else {
    in.Expect("=");
  }
  store.value = in.Node();
  if (in.Take("summed over ")) {
    store.mode = StoreMode::kSum;
    store.stretch = in.Int();
  }
  if (in.Take("where ")) store.mask = in.Node();
  nest_.stores.push_back(std::move(store));
}

std::optional<LoopNest> StatementReader::ReadNestLine(LineReader& in) {
  if (in.Take("}")) {
    in_nest_ = false;
    return std::move(nest_);
  }
  // "t3 = ..." is a node. A buffer may be called t3 too, but then has an index.
  const absl::string_view line = in.rest();
  const size_t end = line.find_first_of(" [");
  const bool node = line.substr(0, 1) == "t" &&
                    end != absl::string_view::npos && line[end] == ' ';
  if (node) {
    ReadNode(in, nest_.body);
  } else {
    ReadStore(in);
  }
  return std::nullopt;
}

View StatementReader::ReadView(LineReader& in) {
  View view;
  in.Expect("view ");
  view.buffer = ReadBufferName(in);
  view.dtype = in.Type();
  view.sizes = in.Dims();
  in.Expect("strides");
  view.strides = in.Dims();
  in.Expect("offset");
  view.offset = in.Expr();
  return view;
}

std::vector<View> StatementReader::ReadViews(LineReader& in) {
  std::vector<View> views;
  in.Expect("(");
  while (in.ok() && !in.Take(")")) {
    views.push_back(ReadView(in));
    if (!in.Take(";") && in.rest().substr(0, 1) != ")") in.Fail("';' or ')'");
  }
  return views;
}

RowOrder StatementReader::ReadOrder(LineReader& in) {
  RowOrder order;
  const absl::string_view place = in.rest();
  const auto how = OrderFromName(in.Word("an order"));
  if (!how.has_value()) in.FailAt(place, "an order");
  order.how = how.value_or(RowOrder::How::kSort);
  in.Expect("from ");
  order.origin = in.Word("an operator");
  in.Expect("largest ");
  order.largest = in.Int() != 0;
  in.Expect("k ");
  order.k = in.Expr();
  const absl::string_view views = in.rest();
  const std::vector<View> inputs = ReadViews(in);
  in.Expect("->");
  const std::vector<View> results = ReadViews(in);
  if (inputs.size() != 1 || results.size() != 2) {
    in.FailAt(views, "one view, and two");
    return order;
  }
  order.x = inputs[0];
  order.values = results[0];
  order.places = results[1];
  return order;
}

void StatementReader::BeginContraction(Contraction::Form form, LineReader& in) {
  contraction_ = Contraction();
  contraction_.form = form;
  contraction_.origins =
      absl::StrSplit(in.Word("the operators of a contraction"), '+');
  in.Expect("[");
  const absl::string_view axes = in.rest();
  // An axis' name depends on how many there are.
  std::vector<std::string> names;
  while (in.ok() && !in.Take("]")) {
    names.push_back(in.Word("an axis"));
    in.Expect(absl::StrCat("i", contraction_.extents.size(), " in "));
    contraction_.extents.push_back(in.Expr());
    if (!in.Take(",") && in.rest().substr(0, 1) != "]") in.Fail("',' or ']'");
  }
  in.Expect("{");
  std::string due;
  if (!HasKnownAxes(contraction_, due)) {
    in.FailAt(axes, due);
    return;
  }
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k] != AxisName(contraction_, k)) {
      in.FailAt(axes, absl::StrCat("axis ", AxisName(contraction_, k), " for ",
                                   names[k]));
      return;
    }
  }
  in_contraction_ = in.ok();
}

std::optional<Contraction> StatementReader::ReadContractionLine(
    LineReader& in) {
  if (in.Take("}")) {
    in_contraction_ = false;
    return std::move(contraction_);
  }
  if (in.Take("allow ")) {
    if (in.Take("tf32")) {
      contraction_.allow_tf32 = true;
    } else {
      in.Expect("reduced_sums");
      contraction_.allow_reduced_sums = true;
    }
    return std::nullopt;
  }
  if (in.Take("deterministic")) {
    contraction_.deterministic = true;
    return std::nullopt;
  }
  for (size_t k = 0; k < contraction_.operands.size(); ++k) {
    if (!in.Take(absl::StrCat(OperandName(k), " "))) continue;
    if (in.Take("=")) {
      contraction_.written = static_cast<Contraction::Place>(k);
      contraction_.value = in.Node();
    } else {
      contraction_.operands[k].view = ReadView(in);
      in.Expect("at ");
      contraction_.operands[k].index = in.Dims();
    }
    return std::nullopt;
  }
  ReadNode(in, contraction_.body);
  return std::nullopt;
}

void StatementReader::BeginAttention(bool backward, LineReader& in) {
  attention_ = Attention();
  attention_.backward = backward;
  attention_.origin = in.Word("the operator of an attention");
  in.Expect("[");
  for (size_t k = 0; k < Attention::kAxes; ++k) {
    if (k > 0) in.Expect(",");
    in.Expect(absl::StrCat(AxisLetters().substr(k, 1), " "));
    attention_.extents[k] = in.Expr();
  }
  in.Expect("]");
  in.Expect("{");
  in_attention_ = in.ok();
}

std::optional<Attention> StatementReader::ReadAttentionLine(LineReader& in) {
  if (in.Take("}")) {
    in_attention_ = false;
    return std::move(attention_);
  }
  if (in.Take("scale ")) {
    attention_.scale = in.Float();
  } else if (in.Take("window ")) {
    attention_.window = in.Int();
  } else if (in.Take("dropout ")) {
    attention_.dropout = in.Float();
  } else if (in.Take("own")) {
    attention_.own = true;
  } else if (in.Take("causal ")) {
    const absl::string_view place = in.rest();
    const auto causal = CausalFromName(in.Word());
    if (!causal.has_value()) in.FailAt(place, "top_left or bottom_right");
    attention_.causal = causal.value_or(Attention::Causal::kNone);
  } else {
    const absl::string_view place = in.rest();
    const std::string name = in.Word("an array");
    for (size_t k = 0; k < Attention::kPlaces; ++k) {
      if (PlaceName(k) != name) continue;
      attention_.arrays[k] = ReadView(in);
      return std::nullopt;
    }
    in.FailAt(place, "an array, scale, causal, window, dropout or own");
  }
  return std::nullopt;
}

Fill StatementReader::ReadFill(LineReader& in) {
  Fill fill{ReadBufferName(in), Number{.i = 0}};
  in.Expect("=");
  fill.value.i = in.Int();
  return fill;
}

ProgramOutput StatementReader::ReadReturn(LineReader& in) {
  ProgramOutput output;
  if (in.PeekWord() == "view") {
    output.what = ReadView(in);
  } else if (in.Take("sym ")) {
    output.what = in.Expr();
  } else if (!in.Take("none")) {
    in.Fail("view, sym or none");
  }
  return output;
}

}  // namespace kiln

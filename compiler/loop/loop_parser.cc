// Reads the text of loop_text.h: a hand-written walk over words and marks.

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/graph/tensor_meta.h"
#include "compiler/loop/loop_text.h"
#include "compiler/sym/sym_text.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// One line being read. After the first failure everything else fails too.
class LineReader {
 public:
  explicit LineReader(absl::string_view line) : rest_(line) { Skip(); }

  bool ok() const { return ok_; }
  absl::string_view rest() const { return rest_; }
  bool done() const { return rest_.empty(); }

  bool Take(absl::string_view mark) {
    if (rest_.substr(0, mark.size()) != mark) return false;
    rest_.remove_prefix(mark.size());
    Skip();
    return true;
  }
  void Expect(absl::string_view mark) {
    if (!Take(mark)) ok_ = false;
  }
  // Letters, digits, and "_.+@%".
  std::string Word() {
    size_t n = 0;
    while (n < rest_.size() && (absl::ascii_isalnum(rest_[n]) ||
                                absl::string_view("_.+@%").find(rest_[n]) !=
                                    absl::string_view::npos)) {
      ++n;
    }
    if (n == 0) ok_ = false;
    std::string word(rest_.substr(0, n));
    rest_.remove_prefix(n);
    Skip();
    return word;
  }
  // Up to the next space, comma or bracket.
  std::string Token() {
    const size_t n = std::min(rest_.size(), rest_.find_first_of(" ,)];"));
    std::string token(rest_.substr(0, n));
    rest_.remove_prefix(n);
    Skip();
    if (token.empty()) ok_ = false;
    return token;
  }
  int64_t Int() {
    int64_t value = 0;
    if (!absl::SimpleAtoi(Token(), &value)) ok_ = false;
    return value;
  }
  double Float() {
    const std::string token = Token();
    char* end = nullptr;
    const double value = std::strtod(token.c_str(), &end);
    if (end == token.c_str()) ok_ = false;
    return value;
  }
  Number NumberOf(DType dtype) {
    Number number{.i = 0};
    if (IsFloat(dtype)) {
      number.f = Float();
    } else {
      number.i = Int();
    }
    return number;
  }
  SymExpr Expr() {
    auto e = ConsumeSymExpr(rest_, DefaultVarOfName);
    if (!e.ok()) {
      ok_ = false;
      return 0;
    }
    Skip();
    return *e;
  }
  DimVector Dims() {
    DimVector dims;
    Expect("[");
    while (ok_ && !Take("]")) {
      dims.push_back(Expr());
      if (!Take(",") && rest_.substr(0, 1) != "]") ok_ = false;
    }
    return dims;
  }
  DType Type() {
    size_t n = 0;
    while (n < rest_.size() && absl::ascii_isalnum(rest_[n])) ++n;
    const auto dtype = DTypeFromShortName(rest_.substr(0, n));
    if (!dtype.has_value()) {
      ok_ = false;
      return DType::kFloat32;
    }
    rest_.remove_prefix(n);
    Skip();
    return *dtype;
  }
  ScalarId Node() {
    Expect("t");
    return static_cast<ScalarId>(Int());
  }

 private:
  void Skip() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }

  absl::string_view rest_;
  bool ok_ = true;
};

class ProgramParser {
 public:
  explicit ProgramParser(absl::string_view text)
      : lines_(absl::StrSplit(text, '\n')) {}

  absl::StatusOr<LoopProgram> Parse();

 private:
  bool Header(LineReader& in);
  bool BufferLine(LineReader& in, BufferKind kind);
  bool NestHeader(LineReader& in);
  bool NestLine(LineReader& in);
  bool NodeLine(LineReader& in);
  bool StoreLine(LineReader& in);
  bool ExternLine(LineReader& in);
  bool ReturnLine(LineReader& in);
  bool Statement(LineReader& in);
  View ViewText(LineReader& in);
  std::vector<View> Views(LineReader& in);
  BufferId BufferNamed(LineReader& in);

  std::vector<absl::string_view> lines_;
  LoopProgram program_;
  absl::flat_hash_map<std::string, BufferId> buffers_;
  bool in_nest_ = false, in_program_ = false;
  bool unknown_ = false;
  LoopNest nest_;
};

BufferId ProgramParser::BufferNamed(LineReader& in) {
  const std::string name = in.Word();
  const auto found = buffers_.find(name);
  if (found == buffers_.end()) {
    unknown_ = true;
    return 0;
  }
  return found->second;
}

bool ProgramParser::Header(LineReader& in) {
  in.Expect("loops @");
  program_.name = in.rest().substr(0, 1) == "(" ? "" : in.Word();
  in.Expect("(");
  while (in.ok() && !in.Take(")")) {
    SymbolFacts symbol;
    symbol.name = in.Word();
    in.Expect("in [");
    symbol.range.min = in.Int();
    in.Expect(",");
    symbol.range.max = in.Int();
    in.Expect("]");
    in.Expect("hint");
    symbol.hint = in.Int();
    program_.shapes.symbols.push_back(std::move(symbol));
    in.Take(",");
  }
  in.Expect("{");
  in_program_ = true;
  return in.ok();
}

bool ProgramParser::BufferLine(LineReader& in, BufferKind kind) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.name = in.Word();
  in.Expect(":");
  buffer.dtype = in.Type();
  buffer.sizes = in.Dims();
  buffer.strides = ContiguousStrides(buffer.sizes);
  if (in.Take("strides")) buffer.strides = in.Dims();
  if (in.Take("offset")) buffer.offset = in.Expr();
  if (in.Take("index")) buffer.index = static_cast<uint32_t>(in.Int());
  buffers_[buffer.name] = static_cast<BufferId>(program_.buffers.size());
  program_.buffers.push_back(std::move(buffer));
  return in.ok();
}

bool ProgramParser::NestHeader(LineReader& in) {
  nest_ = LoopNest();
  nest_.origins = absl::StrSplit(in.Word(), '+');
  in.Expect("[");
  while (in.ok() && !in.Take("]")) {
    Axis axis;
    axis.reduction = in.Take("reduce");
    in.Expect(absl::StrCat("i", nest_.axes.size()));
    in.Expect("in");
    axis.extent = in.Expr();
    nest_.axes.push_back(std::move(axis));
    in.Take(",");
  }
  in.Expect("{");
  in_nest_ = true;
  return in.ok();
}

bool ProgramParser::NodeLine(LineReader& in) {
  const ScalarId id = in.Node();
  if (id != nest_.body.size()) return false;
  in.Expect("=");
  const auto op = ScalarOpFromName(in.Word());
  if (!op.has_value()) return false;
  ScalarNode node{*op, in.Type()};
  if (*op == ScalarOp::kConstant) {
    node.number = in.NumberOf(node.dtype);
  } else if (*op == ScalarOp::kIndex) {
    node.index.push_back(in.Expr());
  } else if (*op == ScalarOp::kLoad) {
    node.buffer = BufferNamed(in);
    node.index = in.Dims();
    if (in.Take("where")) {
      node.args.push_back(in.Node());
      in.Expect("else");
      node.number = in.NumberOf(node.dtype);
    }
  } else {
    while (in.ok() && in.rest().substr(0, 1) == "t") {
      node.args.push_back(in.Node());
      if (!in.Take(",")) break;
    }
    if (in.Take("by")) {
      const auto reduce = ReduceOpFromName(in.Word());
      if (!reduce.has_value()) return false;
      node.reduce = *reduce;
    }
    if (in.Take("number")) node.number.i = in.Int();
  }
  nest_.body.push_back(std::move(node));
  return in.ok() && in.done();
}

bool ProgramParser::StoreLine(LineReader& in) {
  Store store;
  store.buffer = BufferNamed(in);
  store.index = in.Dims();
  if (in.Take("+=")) {
    store.mode = StoreMode::kAtomicAdd;
  } else {
    in.Expect("=");
  }
  store.value = in.Node();
  if (in.Take("where")) store.mask = in.Node();
  nest_.stores.push_back(std::move(store));
  return in.ok() && in.done();
}

bool ProgramParser::NestLine(LineReader& in) {
  if (in.Take("}")) {
    in_nest_ = false;
    program_.steps.push_back(std::move(nest_));
    return in.done();
  }
  // "t3 = ..." is a node; a buffer may be called t3 too, but has an index.
  const absl::string_view line = in.rest();
  const size_t end = line.find_first_of(" [");
  const bool node =
      line[0] == 't' && end != absl::string_view::npos && line[end] == ' ';
  return node ? NodeLine(in) : StoreLine(in);
}

View ProgramParser::ViewText(LineReader& in) {
  View view;
  in.Expect("view");
  view.buffer = BufferNamed(in);
  view.dtype = in.Type();
  view.sizes = in.Dims();
  in.Expect("strides");
  view.strides = in.Dims();
  in.Expect("offset");
  view.offset = in.Expr();
  return view;
}

std::vector<View> ProgramParser::Views(LineReader& in) {
  std::vector<View> views;
  in.Expect("(");
  while (in.ok() && !in.Take(")")) {
    views.push_back(ViewText(in));
    in.Take(";");
  }
  return views;
}

bool ProgramParser::ExternLine(LineReader& in) {
  ExternCall call;
  call.name = in.Word();
  in.Expect("from");
  call.origin = in.Word();
  call.inputs = Views(in);
  in.Expect("->");
  call.outputs = Views(in);
  while (in.ok() && !in.done()) {
    Attribute attribute;
    attribute.name = in.Word();
    in.Expect("=");
    if (in.Take("float")) {
      attribute.value = in.Float();
    } else if (in.Take("\"")) {
      attribute.value = in.rest().substr(0, 1) == "\"" ? "" : in.Word();
      in.Expect("\"");
    } else if (in.rest().substr(0, 1) == "[") {
      const DimVector dims = in.Dims();
      attribute.value = std::vector<SymExpr>(dims.begin(), dims.end());
    } else {
      attribute.value = in.Int();
    }
    call.attributes.push_back(std::move(attribute));
  }
  program_.steps.push_back(std::move(call));
  return in.ok();
}

bool ProgramParser::ReturnLine(LineReader& in) {
  ProgramOutput output;
  if (in.rest().substr(0, 4) == "view") {
    output.what = ViewText(in);
  } else if (in.Take("sym")) {
    output.what = in.Expr();
  } else {
    in.Expect("none");
  }
  program_.outputs.push_back(std::move(output));
  return in.ok() && in.done();
}

bool ProgramParser::Statement(LineReader& in) {
  if (in.Take("in ")) return BufferLine(in, BufferKind::kInput);
  if (in.Take("const ")) return BufferLine(in, BufferKind::kConstant);
  if (in.Take("tmp ")) return BufferLine(in, BufferKind::kTemporary);
  if (in.Take("out ")) return BufferLine(in, BufferKind::kOutput);
  if (in.Take("nest ")) return NestHeader(in);
  if (in.Take("extern ")) return ExternLine(in);
  if (in.Take("return ")) return ReturnLine(in);
  if (in.Take("mutates ")) {
    program_.mutated_inputs.push_back(static_cast<uint32_t>(in.Int()));
    return in.ok();
  }
  if (in.Take("fill ")) {
    Fill fill{BufferNamed(in), Number{.i = 0}};
    in.Expect("=");
    fill.value.i = in.Int();
    program_.steps.push_back(fill);
    return in.ok();
  }
  if (in.Take("}")) {
    in_program_ = false;
    return in.done();
  }
  return false;
}

absl::StatusOr<LoopProgram> ProgramParser::Parse() {
  bool begun = false;
  for (size_t n = 0; n < lines_.size(); ++n) {
    absl::string_view line = lines_[n];
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    LineReader in(line);
    const bool good = !begun        ? Header(in)
                      : in_nest_    ? NestLine(in)
                      : in_program_ ? Statement(in)
                                    : false;
    begun = true;
    if (!good || unknown_) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", n + 1, ": cannot read '", line, "' from '",
                       in.rest(), "'", unknown_ ? ", an unknown buffer" : ""));
    }
  }
  if (!begun || in_program_ || in_nest_) {
    return absl::InvalidArgumentError("the text ends before the program does");
  }
  return std::move(program_);
}

}  // namespace

absl::StatusOr<LoopProgram> ParseLoopProgram(absl::string_view text) {
  return ProgramParser(text).Parse();
}

}  // namespace kiln

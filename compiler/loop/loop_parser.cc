// Reads the text of loop_text.h, a statement a line.

#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "compiler/loop/line_reader.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/statement_reader.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

class ProgramParser {
 public:
  absl::StatusOr<LoopProgram> Parse(absl::string_view text);

 private:
  enum class Place { kBefore, kInside, kBehind };

  void Line(LineReader& in);
  void Header(LineReader& in);
  void Statement(LineReader& in);

  StatementReader statements_;
  LoopProgram program_;
  Place place_ = Place::kBefore;
};

void ProgramParser::Header(LineReader& in) {
  in.Expect("loops @");
  program_.name = in.rest().substr(0, 1) == "(" ? "" : in.Word();
  program_.shapes = StatementReader::ReadSymbols(in);
  in.Expect("{");
  place_ = Place::kInside;
}

void ProgramParser::Statement(LineReader& in) {
  if (statements_.TakeBuffer(in)) return;
  if (in.Take("nest ")) {
    statements_.BeginNest(in);
  } else if (in.Take("product ")) {
    statements_.BeginContraction(Contraction::Form::kProduct, in);
  } else if (in.Take("convolution ")) {
    statements_.BeginContraction(Contraction::Form::kConvolution, in);
  } else if (in.Take("attention ")) {
    statements_.BeginAttention(false, in);
  } else if (in.Take("attention_backward ")) {
    statements_.BeginAttention(true, in);
  } else if (in.Take("order ")) {
    program_.steps.push_back(statements_.ReadOrder(in));
  } else if (in.Take("fill ")) {
    program_.steps.push_back(statements_.ReadFill(in));
  } else if (in.Take("return ")) {
    program_.outputs.push_back(statements_.ReadReturn(in));
  } else if (in.Take("mutates ")) {
    program_.mutated_inputs.push_back(static_cast<uint32_t>(in.Int()));
  } else if (in.Take("}")) {
    place_ = Place::kBehind;
  } else {
    in.Fail(
        "in, const, tmp, out, nest, product, convolution, attention, "
        "attention_backward, order, fill, return, mutates or '}'");
  }
}

void ProgramParser::Line(LineReader& in) {
  if (statements_.in_nest()) {
    auto nest = statements_.ReadNestLine(in);
    if (nest.has_value()) program_.steps.push_back(*std::move(nest));
    return;
  }
  if (statements_.in_contraction()) {
    auto contraction = statements_.ReadContractionLine(in);
    if (contraction.has_value())
      program_.steps.push_back(*std::move(contraction));
    return;
  }
  if (statements_.in_attention()) {
    auto attention = statements_.ReadAttentionLine(in);
    if (attention.has_value()) program_.steps.push_back(*std::move(attention));
    return;
  }
  switch (place_) {
    case Place::kBefore:
      return Header(in);
    case Place::kInside:
      return Statement(in);
    case Place::kBehind:
      in.Fail("nothing after the program");
  }
}

absl::StatusOr<LoopProgram> ProgramParser::Parse(absl::string_view text) {
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    LineReader in(line, ++number);
    if (in.done() || in.rest().substr(0, 2) == "//") continue;
    Line(in);
    in.ExpectEnd();
    RETURN_IF_ERROR(in.status());
  }
  if (place_ != Place::kBehind) {
    return absl::InvalidArgumentError("the text ends before the program does");
  }
  program_.buffers = std::move(statements_.buffers());
  return std::move(program_);
}

}  // namespace

absl::StatusOr<LoopProgram> ParseLoopProgram(absl::string_view text) {
  return ProgramParser().Parse(text);
}

}  // namespace kiln

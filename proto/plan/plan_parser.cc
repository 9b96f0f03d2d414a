// Reads the text of plan_text.h.

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"
#include "proto/plan/plan_text.h"
#include "proto/plan/plan_words.h"
#include "proto/plan/text_reader.h"

namespace kiln {
namespace {

using Exprs = google::protobuf::RepeatedPtrField<wire::SymExpr>;
using Views = google::protobuf::RepeatedPtrField<wire::BufferView>;

// Reads one plan. One use.
class PlanParser {
 public:
  explicit PlanParser(absl::string_view text) : in_(text) {}
  absl::StatusOr<wire::LaunchPlan> Parse();

 private:
  // "b3": a number behind a letter.
  uint32_t Numbered(char letter, absl::string_view due);
  wire::DType DType();
  Exprs Dims();
  wire::BufferView View();
  Views ViewList();
  template <typename Enum, size_t N>
  Enum OneOf(const EnumWord<Enum> (&rows)[N], absl::string_view due);

  void Symbols();
  void Input();
  void Buffer();
  void Kernel();
  void Launch();
  void Extern();
  void Nodes(google::protobuf::RepeatedField<uint32_t>& nodes);
  void Output();
  bool SmallStep();
  void Statement();

  TextReader in_;
  wire::LaunchPlan plan_;
};

uint32_t PlanParser::Numbered(char letter, absl::string_view due) {
  const bool right = in_.NextIs(letter);
  const std::string word = in_.Word(due);
  uint32_t number = 0;
  // A word that is not there has failed already.
  if (!right || word.empty() ||
      !absl::SimpleAtoi(absl::string_view(word).substr(1), &number)) {
    in_.Fail(due);
  }
  return number;
}

template <typename Enum, size_t N>
Enum PlanParser::OneOf(const EnumWord<Enum> (&rows)[N], absl::string_view due) {
  for (const EnumWord<Enum>& row : rows) {
    if (in_.Take(row.word)) return row.value;
  }
  in_.Fail(due);
  return rows[0].value;
}

wire::DType PlanParser::DType() {
  const std::string word = in_.Word("an element type");
  const auto known = DTypeFromShortName(word);
  if (known.has_value()) return ToWire(*known);
  absl::string_view number = word;
  int value = 0;
  if (!absl::ConsumePrefix(&number, "dtype") ||
      !absl::SimpleAtoi(number, &value)) {
    in_.Fail("an element type before this");
  }
  return static_cast<wire::DType>(value);
}

Exprs PlanParser::Dims() {
  Exprs dims;
  in_.Expect("[");
  while (in_.ok() && !in_.Take("]")) {
    *dims.Add() = in_.Expr();
    if (!in_.Take(",") && !in_.NextIs(']')) in_.Fail("',' or ']'");
  }
  return dims;
}

wire::BufferView PlanParser::View() {
  wire::BufferView view;
  view.set_buffer(Numbered('b', "a buffer"));
  view.set_dtype(DType());
  *view.mutable_sizes() = Dims();
  in_.Expect("strides");
  *view.mutable_strides() = Dims();
  in_.Expect("offset");
  *view.mutable_offset() = in_.Expr();
  return view;
}

Views PlanParser::ViewList() {
  Views views;
  in_.Expect("(");
  while (in_.ok() && !in_.Take(")")) {
    *views.Add() = View();
    if (!in_.Take(";") && !in_.NextIs(')')) in_.Fail("';' or ')'");
  }
  return views;
}

void PlanParser::Symbols() {
  in_.Expect("(");
  while (in_.ok() && !in_.Take(")")) {
    wire::PlanSymbol& symbol = *plan_.add_symbols();
    const std::string due = absl::StrCat("s", plan_.symbols_size() - 1);
    in_.Expect(due);
    symbol.set_name(in_.NextIs('"') ? in_.String() : due);
    in_.Expect("in");
    in_.Expect("[");
    symbol.set_min(in_.Int());
    in_.Expect(",");
    symbol.set_max(in_.Int());
    in_.Expect("]");
    in_.Expect("from");
    wire::SymbolSource& source = *symbol.mutable_source();
    source.set_kind(OneOf(kSymbolSources, "where the symbol is found"));
    if (!in_.NextIs(',') && !in_.NextIs(')')) {
      source.set_input(in_.Unsigned());
      source.set_dim(in_.Unsigned());
    }
    in_.Take(",");
  }
}

void PlanParser::Input() {
  wire::PlanInput& input = *plan_.add_inputs();
  if (in_.Take("scalar")) {
    *input.mutable_scalar() = in_.Expr();
  } else if (!in_.Take("none")) {
    wire::TensorMeta& meta = *input.mutable_tensor();
    meta.set_dtype(DType());
    *meta.mutable_sizes() = Dims();
    in_.Expect("strides");
    *meta.mutable_strides() = Dims();
    in_.Expect("offset");
    *meta.mutable_storage_offset() = in_.Expr();
    for (const auto& row : kDevices) {
      if (in_.Take(row.word)) meta.set_device(row.value);
    }
  }
  if (in_.Take("align")) input.set_alignment_bytes(in_.Unsigned());
  if (in_.Take("mutated")) input.set_mutated(true);
}

void PlanParser::Buffer() {
  in_.Expect(absl::StrCat("b", plan_.buffers_size()));
  wire::PlanBuffer& buffer = *plan_.add_buffers();
  buffer.set_name(in_.String());
  buffer.set_kind(OneOf(kBufferKinds, "the kind of a buffer"));
  if (!in_.Take("bytes")) {
    buffer.set_index(in_.Unsigned());
    in_.Expect("bytes");
  }
  *buffer.mutable_bytes() = in_.Expr();
  if (in_.Take("offset")) *buffer.mutable_offset() = in_.Expr();
  if (in_.Take("written")) *buffer.mutable_written() = View();
}

void PlanParser::Kernel() {
  in_.Expect(absl::StrCat("k", plan_.kernels_size()));
  wire::PlanKernel& kernel = *plan_.add_kernels();
  kernel.set_symbol(in_.Word("a kernel's symbol"));
  in_.Expect("label");
  kernel.set_label(in_.Word("a kernel's label"));
  in_.Expect("module");
  kernel.set_module(in_.Unsigned());
  in_.Expect("from");
  in_.Expect("[");
  while (in_.ok() && !in_.Take("]")) {
    kernel.add_origins(in_.Word("an operator"));
    in_.Take(",");
  }
  in_.Expect("reads");
  *kernel.mutable_bytes_read() = in_.Expr();
  in_.Expect("writes");
  *kernel.mutable_bytes_written() = in_.Expr();
  if (in_.Take("mapped")) kernel.set_mapping(in_.String());
  if (in_.Take("over")) *kernel.mutable_extents() = Dims();
  std::string text;
  for (bool first = true; in_.TakeLineMark(); first = false) {
    absl::StrAppend(&text, first ? "" : "\n", in_.Line());
  }
  kernel.set_text(text);
}

void PlanParser::Launch() {
  wire::LaunchStep& launch = *plan_.add_steps()->mutable_launch();
  launch.set_kernel(Numbered('k', "a kernel"));
  in_.Expect("grid");
  *launch.mutable_grid() = Dims();
  in_.Expect("block");
  in_.Expect("[");
  while (in_.ok() && !in_.Take("]")) {
    launch.add_block(in_.Unsigned());
    in_.Take(",");
  }
  in_.Expect("args");
  in_.Expect("[");
  while (in_.ok() && !in_.Take("]")) {
    wire::KernelArg& arg = *launch.add_args();
    if (in_.Take("seed")) {
      arg.mutable_seed();
    } else if (in_.Take("seed_slot")) {
      arg.mutable_seed_slot();
    } else if (in_.NextIs('b')) {
      wire::BufferArg& buffer = *arg.mutable_buffer();
      buffer.set_buffer(Numbered('b', "a buffer"));
      wire::SymExpr& offset = *buffer.mutable_offset_bytes();
      if (in_.Take("at")) offset = in_.Expr();
      if (!in_.NextIs(',') && !in_.NextIs(']')) {
        buffer.set_dtype(DType());
        *buffer.mutable_sizes() = Dims();
      }
    } else if (!in_.Take("none")) {
      *arg.mutable_scalar() = in_.Expr();
    }
    if (!in_.Take(",") && !in_.NextIs(']')) in_.Fail("',' or ']'");
  }
  if (in_.Take("shared")) launch.set_shared_bytes(in_.Unsigned());
  if (in_.Take("cluster")) launch.set_cluster(in_.Unsigned());
  launch.set_programmatic_dependent_launch(
      in_.Take("programmatic_dependent_launch"));
  if (in_.Take("blocks_per_multiprocessor")) {
    launch.set_blocks_per_multiprocessor(in_.Unsigned());
  }
  Nodes(*launch.mutable_client_nodes());
}

void PlanParser::Nodes(google::protobuf::RepeatedField<uint32_t>& nodes) {
  if (!in_.Take("nodes")) return;
  in_.Expect("[");
  while (in_.ok() && !in_.Take("]")) {
    nodes.Add(in_.Unsigned());
    in_.Take(",");
  }
}

void PlanParser::Extern() {
  wire::ExternStep& call = *plan_.add_steps()->mutable_extern_call();
  call.set_name(in_.Word("a library call"));
  *call.mutable_inputs() = ViewList();
  in_.Expect("->");
  *call.mutable_outputs() = ViewList();
  // A word and "=" are an attribute; the next statement begins otherwise.
  while (in_.ok() && in_.WordBefore('=')) {
    wire::Attribute& attribute = *call.add_attributes();
    attribute.set_name(in_.Word("an attribute"));
    in_.Expect("=");
    if (in_.Take("float")) {
      attribute.set_float_value(in_.Float());
    } else if (in_.NextIs('"')) {
      attribute.set_string_value(in_.String());
    } else if (in_.NextIs('[')) {
      *attribute.mutable_ints()->mutable_values() = Dims();
    } else if (!in_.Take("none")) {
      attribute.set_int_value(in_.Int());
    }
  }
  Nodes(*call.mutable_client_nodes());
}

void PlanParser::Output() {
  wire::PlanOutput& output = *plan_.add_outputs();
  if (in_.Take("view")) {
    *output.mutable_view() = View();
  } else if (in_.Take("sym")) {
    *output.mutable_sym() = in_.Expr();
  } else if (in_.Take("none")) {
    output.mutable_none();
  } else {
    in_.Expect("nothing");
  }
}

// The steps that are a line of code each. False when none begins here.
bool PlanParser::SmallStep() {
  wire::PlanStep step;
  if (in_.Take("copy")) {
    *step.mutable_copy()->mutable_from() = View();
    in_.Expect("->");
    *step.mutable_copy()->mutable_to() = View();
  } else if (in_.Take("fill")) {
    *step.mutable_fill()->mutable_to() = View();
    in_.Expect("bits");
    step.mutable_fill()->set_bits(in_.Unsigned());
  } else if (in_.Take("assert")) {
    *step.mutable_assertion()->mutable_condition() = in_.Expr();
    step.mutable_assertion()->set_message(in_.String());
  } else if (in_.Take("bind")) {
    step.mutable_bind_symbol()->set_symbol(Numbered('s', "a symbol"));
    in_.Expect("=");
    *step.mutable_bind_symbol()->mutable_value() = in_.Expr();
  } else if (in_.Take("host")) {
    step.mutable_host_call()->set_op(in_.String());
    *step.mutable_host_call()->mutable_inputs() = ViewList();
    in_.Expect("->");
    *step.mutable_host_call()->mutable_outputs() = ViewList();
  } else if (in_.Take("region")) {
    step.mutable_region()->set_kind(in_.String());
  } else if (!in_.Take("nothing")) {
    return false;
  }
  *plan_.add_steps() = std::move(step);
  return true;
}

void PlanParser::Statement() {
  if (in_.Take("input")) return Input();
  if (in_.Take("buffer")) return Buffer();
  if (in_.Take("kernel")) return Kernel();
  if (in_.Take("launch")) return Launch();
  if (in_.Take("extern")) return Extern();
  if (in_.Take("output")) return Output();
  if (SmallStep()) return;
  in_.Fail(
      "input, buffer, kernel, launch, extern, copy, fill, assert, bind, host, "
      "region, output or arena");
}

absl::StatusOr<wire::LaunchPlan> PlanParser::Parse() {
  in_.Expect("launch_plan");
  Symbols();
  in_.Expect("{");
  while (in_.ok() && !in_.Take("arena")) Statement();
  *plan_.mutable_arena_bytes() = in_.Expr();
  in_.Expect("bytes, peak live");
  plan_.set_peak_live_bytes(in_.Unsigned());
  in_.Expect("}");
  if (!in_.done()) in_.Fail("the end");
  RETURN_IF_ERROR(in_.status());
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<wire::LaunchPlan> ParsePlan(absl::string_view text) {
  return PlanParser(text).Parse();
}

}  // namespace kiln

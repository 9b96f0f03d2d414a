#include "proto/plan/plan_text.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/dtype.h"
#include "proto/base/sym_eval.h"
#include "proto/plan/plan_words.h"

namespace kiln {
namespace {

using Exprs = google::protobuf::RepeatedPtrField<wire::SymExpr>;
using Views = google::protobuf::RepeatedPtrField<wire::BufferView>;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text), "\"");
}

std::string Dims(const Exprs& exprs) {
  return absl::StrCat("[",
                      absl::StrJoin(exprs, ", ",
                                    [](std::string* out, const auto& e) {
                                      absl::StrAppend(out, SymExprText(e));
                                    }),
                      "]");
}

std::string DTypeText(wire::DType dtype) {
  const auto known = DTypeFromWire(dtype);
  return known.has_value() ? std::string(ShortName(*known))
                           : absl::StrCat("dtype", static_cast<int>(dtype));
}

// Shortest text that reads back to the same double.
std::string FloatText(double value) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

std::string ViewText(const wire::BufferView& view) {
  return absl::StrCat("b", view.buffer(), " ", DTypeText(view.dtype()), " ",
                      Dims(view.sizes()), " strides ", Dims(view.strides()),
                      " offset ", SymExprText(view.offset()));
}

std::string ViewsText(const Views& views) {
  return absl::StrCat("(",
                      absl::StrJoin(views, "; ",
                                    [](std::string* out, const auto& view) {
                                      absl::StrAppend(out, ViewText(view));
                                    }),
                      ")");
}

std::string SymbolText(const wire::PlanSymbol& symbol, int number) {
  std::string out = absl::StrCat("s", number);
  if (symbol.name() != out) absl::StrAppend(&out, " ", Quoted(symbol.name()));
  absl::StrAppend(&out, " in [", symbol.min(), ", ", symbol.max(), "] from ",
                  NameOf(kSymbolSources, symbol.source().kind()));
  const bool bound = symbol.source().kind() == wire::SymbolSource::KIND_STEP;
  if (!bound || symbol.source().input() != 0 || symbol.source().dim() != 0) {
    absl::StrAppend(&out, " ", symbol.source().input(), " ",
                    symbol.source().dim());
  }
  return out;
}

std::string InputText(const wire::PlanInput& input) {
  std::string out = "input ";
  if (input.has_tensor()) {
    const wire::TensorMeta& meta = input.tensor();
    absl::StrAppend(&out, DTypeText(meta.dtype()), " ", Dims(meta.sizes()),
                    " strides ", Dims(meta.strides()), " offset ",
                    SymExprText(meta.storage_offset()));
    if (meta.device() != wire::DEVICE_TYPE_UNSPECIFIED) {
      absl::StrAppend(&out, " ", NameOf(kDevices, meta.device()));
    }
  } else if (input.has_scalar()) {
    absl::StrAppend(&out, "scalar ", SymExprText(input.scalar()));
  } else {
    absl::StrAppend(&out, "none");
  }
  if (input.alignment_bytes() != 0) {
    absl::StrAppend(&out, " align ", input.alignment_bytes());
  }
  return absl::StrCat(out, input.mutated() ? " mutated" : "");
}

std::string BufferText(const wire::PlanBuffer& buffer, int number) {
  std::string out = absl::StrCat("buffer b", number, " ", Quoted(buffer.name()),
                                 " ", NameOf(kBufferKinds, buffer.kind()));
  if (buffer.kind() == wire::PlanBuffer::KIND_INPUT ||
      buffer.kind() == wire::PlanBuffer::KIND_CONSTANT || buffer.index() != 0) {
    absl::StrAppend(&out, " ", buffer.index());
  }
  absl::StrAppend(&out, " bytes ", SymExprText(buffer.bytes()));
  if (buffer.has_offset()) {
    absl::StrAppend(&out, " offset ", SymExprText(buffer.offset()));
  }
  if (buffer.has_written()) {
    absl::StrAppend(&out, " written ", ViewText(buffer.written()));
  }
  return out;
}

std::string KernelText(const wire::PlanKernel& kernel, int number,
                       KernelTexts texts) {
  std::string out =
      absl::StrCat("kernel k", number, " ", kernel.symbol(), " label ",
                   kernel.label(), " module ", kernel.module(), "\n    from [",
                   absl::StrJoin(kernel.origins(), ", "), "] reads ",
                   SymExprText(kernel.bytes_read()), " writes ",
                   SymExprText(kernel.bytes_written()));
  if (!kernel.mapping().empty()) {
    absl::StrAppend(&out, " mapped ", Quoted(kernel.mapping()));
  }
  if (!kernel.extents().empty()) {
    absl::StrAppend(&out, " over ", Dims(kernel.extents()));
  }
  if (texts == KernelTexts::kWithout || kernel.text().empty()) return out;
  for (absl::string_view line : absl::StrSplit(kernel.text(), '\n')) {
    absl::StrAppend(&out, "\n    |", line.empty() ? "" : " ", line);
  }
  return out;
}

// " nodes [3, 4]": whose work a step does.
template <typename Step>
std::string NodesText(const Step& step) {
  if (step.client_nodes().empty()) return "";
  return absl::StrCat(" nodes [", absl::StrJoin(step.client_nodes(), ", "),
                      "]");
}

std::string LaunchText(const wire::LaunchStep& launch) {
  std::vector<std::string> args;
  for (const wire::KernelArg& arg : launch.args()) {
    if (arg.has_buffer()) {
      const wire::BufferArg& buffer = arg.buffer();
      args.push_back(absl::StrCat("b", buffer.buffer()));
      if (buffer.offset_bytes().code_size() != 0 ||
          buffer.offset_bytes().value() != 0) {
        absl::StrAppend(&args.back(), " at ",
                        SymExprText(buffer.offset_bytes()));
      }
      if (buffer.dtype() != wire::DTYPE_UNSPECIFIED) {
        absl::StrAppend(&args.back(), " ", DTypeText(buffer.dtype()), " ",
                        Dims(buffer.sizes()));
      }
    } else if (arg.has_scalar()) {
      args.push_back(SymExprText(arg.scalar()));
    } else {
      args.push_back(arg.has_seed()        ? "seed"
                     : arg.has_seed_slot() ? "seed_slot"
                                           : "none");
    }
  }
  std::string out =
      absl::StrCat("launch k", launch.kernel(), " grid ", Dims(launch.grid()),
                   " block [", absl::StrJoin(launch.block(), ", "), "] args [",
                   absl::StrJoin(args, ", "), "]");
  if (launch.shared_bytes() != 0) {
    absl::StrAppend(&out, " shared ", launch.shared_bytes());
  }
  if (launch.cluster() != 0) {
    absl::StrAppend(&out, " cluster ", launch.cluster());
  }
  if (launch.programmatic_dependent_launch()) {
    absl::StrAppend(&out, " programmatic_dependent_launch");
  }
  if (launch.blocks_per_multiprocessor() != 0) {
    absl::StrAppend(&out, " blocks_per_multiprocessor ",
                    launch.blocks_per_multiprocessor());
  }
  return out + NodesText(launch);
}

std::string AttributeText(const wire::Attribute& attribute) {
  const std::string name = absl::StrCat(attribute.name(), "=");
  switch (attribute.kind_case()) {
    case wire::Attribute::kIntValue:
      return absl::StrCat(name, attribute.int_value());
    case wire::Attribute::kFloatValue:
      return absl::StrCat(name, "float ", FloatText(attribute.float_value()));
    case wire::Attribute::kStringValue:
      return absl::StrCat(name, Quoted(attribute.string_value()));
    case wire::Attribute::kInts:
      return absl::StrCat(name, Dims(attribute.ints().values()));
    case wire::Attribute::KIND_NOT_SET:
      break;
  }
  return absl::StrCat(name, "none");
}

std::string ExternText(const wire::ExternStep& call) {
  std::string out =
      absl::StrCat("extern ", call.name(), " ", ViewsText(call.inputs()),
                   " -> ", ViewsText(call.outputs()));
  for (const wire::Attribute& attribute : call.attributes()) {
    absl::StrAppend(&out, " ", AttributeText(attribute));
  }
  return out + NodesText(call);
}

std::string OutputText(const wire::PlanOutput& output) {
  if (output.has_view()) {
    return absl::StrCat("output view ", ViewText(output.view()));
  }
  if (output.has_sym()) {
    return absl::StrCat("output sym ", SymExprText(output.sym()));
  }
  return output.has_none() ? "output none" : "output nothing";
}

}  // namespace

std::string StepText(const wire::PlanStep& step) {
  switch (step.kind_case()) {
    case wire::PlanStep::kLaunch:
      return LaunchText(step.launch());
    case wire::PlanStep::kExternCall:
      return ExternText(step.extern_call());
    case wire::PlanStep::kCopy:
      return absl::StrCat("copy ", ViewText(step.copy().from()), " -> ",
                          ViewText(step.copy().to()));
    case wire::PlanStep::kFill:
      return absl::StrCat("fill ", ViewText(step.fill().to()), " bits ",
                          step.fill().bits());
    case wire::PlanStep::kAssertion:
      return absl::StrCat("assert ", SymExprText(step.assertion().condition()),
                          " ", Quoted(step.assertion().message()));
    case wire::PlanStep::kBindSymbol:
      return absl::StrCat("bind s", step.bind_symbol().symbol(), " = ",
                          SymExprText(step.bind_symbol().value()));
    case wire::PlanStep::kHostCall:
      return absl::StrCat("host ", Quoted(step.host_call().op()), " ",
                          ViewsText(step.host_call().inputs()), " -> ",
                          ViewsText(step.host_call().outputs()));
    case wire::PlanStep::kRegion:
      return absl::StrCat("region ", Quoted(step.region().kind()));
    case wire::PlanStep::KIND_NOT_SET:
      break;
  }
  return "nothing";
}

std::string PlanText(const wire::LaunchPlan& plan, KernelTexts texts) {
  std::vector<std::string> symbols;
  for (const wire::PlanSymbol& symbol : plan.symbols()) {
    symbols.push_back(SymbolText(symbol, static_cast<int>(symbols.size())));
  }
  std::string out =
      absl::StrCat("launch_plan (", absl::StrJoin(symbols, ", "), ") {\n");
  const auto line = [&out](absl::string_view text) {
    absl::StrAppend(&out, "  ", text, "\n");
  };
  for (const wire::PlanInput& input : plan.inputs()) line(InputText(input));
  for (int i = 0; i < plan.buffers_size(); ++i) {
    line(BufferText(plan.buffers(i), i));
  }
  for (int i = 0; i < plan.kernels_size(); ++i) {
    line(KernelText(plan.kernels(i), i, texts));
  }
  for (const wire::PlanStep& step : plan.steps()) line(StepText(step));
  for (const wire::PlanOutput& output : plan.outputs()) {
    line(OutputText(output));
  }
  line(absl::StrCat("arena ", SymExprText(plan.arena_bytes()),
                    " bytes, peak live ", plan.peak_live_bytes()));
  return absl::StrCat(out, "}\n");
}

}  // namespace kiln

#include "client/compilectl/show_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

std::vector<std::string> SymbolNames(const wire::LaunchPlan& plan) {
  std::vector<std::string> names;
  for (const wire::PlanSymbol& symbol : plan.symbols()) {
    names.push_back(symbol.name());
  }
  return names;
}

// The text of one plan's steps.
class PlanText {
 public:
  explicit PlanText(const wire::LaunchPlan& plan)
      : plan_(plan), names_(SymbolNames(plan)) {}

  std::string Text() const {
    std::string text;
    for (const wire::PlanStep& step : plan_.steps()) {
      absl::StrAppend(&text, "  ", Step(step), "\n");
    }
    for (int i = 0; i < plan_.outputs_size(); ++i) {
      const wire::PlanOutput& output = plan_.outputs(i);
      absl::StrAppend(&text, "  output ", i, " ",
                      output.has_view()  ? View(output.view())
                      : output.has_sym() ? Expr(output.sym())
                                         : "none",
                      "\n");
    }
    absl::StrAppend(&text, "  arena ", Expr(plan_.arena_bytes()), " bytes\n");
    return text;
  }

 private:
  std::string Expr(const wire::SymExpr& expr) const {
    const auto program =
        SymProgram::FromWire(expr, static_cast<int64_t>(plan_.symbols_size()));
    return program.ok() ? program->ToText(names_) : SymExprText(expr);
  }

  std::string List(
      const google::protobuf::RepeatedPtrField<wire::SymExpr>& exprs) const {
    std::vector<std::string> texts;
    for (const wire::SymExpr& expr : exprs) texts.push_back(Expr(expr));
    return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
  }

  std::string Buffer(uint32_t buffer) const {
    if (buffer >= static_cast<uint32_t>(plan_.buffers_size())) {
      return absl::StrCat("buffer ", buffer);
    }
    const wire::PlanBuffer& row = plan_.buffers(buffer);
    switch (row.kind()) {
      case wire::PlanBuffer::KIND_INPUT:
        return absl::StrCat("in ", row.index());
      case wire::PlanBuffer::KIND_CONSTANT:
        return absl::StrCat("constant ", row.index());
      default:
        return row.name().empty() ? absl::StrCat("buffer ", buffer)
                                  : row.name();
    }
  }

  std::string View(const wire::BufferView& view) const {
    return absl::StrCat(Buffer(view.buffer()), List(view.sizes()));
  }

  std::string Views(
      const google::protobuf::RepeatedPtrField<wire::BufferView>& views) const {
    std::vector<std::string> texts;
    for (const wire::BufferView& view : views) texts.push_back(View(view));
    return absl::StrJoin(texts, ", ");
  }

  std::string Launch(const wire::LaunchStep& launch) const {
    std::vector<std::string> args;
    for (const wire::KernelArg& arg : launch.args()) {
      args.push_back(arg.has_buffer()   ? Buffer(arg.buffer().buffer())
                     : arg.has_scalar() ? Expr(arg.scalar())
                                        : "seed");
    }
    const bool known =
        launch.kernel() < static_cast<uint32_t>(plan_.kernels_size());
    return absl::StrCat("launch ",
                        known ? plan_.kernels(launch.kernel()).label()
                              : absl::StrCat("kernel ", launch.kernel()),
                        " grid ", List(launch.grid()), " block [",
                        absl::StrJoin(launch.block(), ", "), "] args [",
                        absl::StrJoin(args, ", "), "]");
  }

  std::string Step(const wire::PlanStep& step) const {
    switch (step.kind_case()) {
      case wire::PlanStep::kLaunch:
        return Launch(step.launch());
      case wire::PlanStep::kExternCall:
        return absl::StrCat("extern ", step.extern_call().name(), " ",
                            Views(step.extern_call().inputs()), " -> ",
                            Views(step.extern_call().outputs()));
      case wire::PlanStep::kCopy:
        return absl::StrCat("copy ", View(step.copy().from()), " -> ",
                            View(step.copy().to()));
      case wire::PlanStep::kFill:
        return absl::StrCat("fill ", View(step.fill().to()), " with bits ",
                            step.fill().bits());
      case wire::PlanStep::kAssertion:
        return absl::StrCat("assert ", Expr(step.assertion().condition()),
                            "  // ", step.assertion().message());
      case wire::PlanStep::kBindSymbol:
        return absl::StrCat("bind symbol ", step.bind_symbol().symbol(), " = ",
                            Expr(step.bind_symbol().value()));
      case wire::PlanStep::kHostCall:
        return absl::StrCat("host ", step.host_call().op());
      case wire::PlanStep::kRegion:
        return absl::StrCat("region ", step.region().kind());
      case wire::PlanStep::KIND_NOT_SET:
        break;
    }
    return "nothing";
  }

  const wire::LaunchPlan& plan_;
  const std::vector<std::string> names_;
};

std::string HeadText(const wire::ShowReply& reply) {
  const wire::Entry& entry = reply.entry();
  std::string text =
      absl::StrCat("key      ", LongKey(entry.compile_key()), "\ngraph    ",
                   entry.graph_name(), "\ntarget   ", entry.target(),
                   "\nsize     ", BytesText(entry.bytes()), "\n");
  for (const std::string& guard : entry.guards()) {
    absl::StrAppend(&text, "guard    ", guard, "\n");
  }
  for (const wire::Counter& counter : reply.artifact().compiled().counters()) {
    absl::StrAppend(&text, "counter  ", counter.name(), " = ", counter.value(),
                    "\n");
  }
  return text;
}

std::string KernelsText(const wire::LaunchPlan& plan) {
  std::string text;
  for (const wire::PlanKernel& kernel : plan.kernels()) {
    absl::StrAppend(&text, kernel.label(), "  from ",
                    absl::StrJoin(kernel.origins(), ", "), "\n", kernel.text(),
                    "\n");
  }
  return text;
}

}  // namespace

std::string ShowText(const wire::ShowReply& reply, ShowWhat what) {
  const wire::CompilePlan& compiled = reply.artifact().compiled();
  std::string text = HeadText(reply);
  switch (what) {
    case ShowWhat::kPlan:
      return absl::StrCat(text, "plan\n", PlanText(compiled.plan()).Text());
    case ShowWhat::kKernels:
      return absl::StrCat(text, KernelsText(compiled.plan()));
    case ShowWhat::kSources:
      for (const wire::TranslationUnit& unit : compiled.units()) {
        absl::StrAppend(&text, "// unit ", ShortKey(unit.digest()), "\n",
                        unit.source(), "\n");
      }
      return text;
  }
  return text;
}

}  // namespace kiln

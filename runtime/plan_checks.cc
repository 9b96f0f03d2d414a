#include "runtime/plan_checks.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Broken(absl::string_view rule, absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("launch plan: ", rule, ": ", what));
}

// The value of a constant expression.
std::optional<int64_t> Known(const Plan& plan, ExprId id) {
  const SymProgram& program = plan.expressions[id].program;
  if (!program.is_constant()) return std::nullopt;
  return program.Evaluate({});
}

// Checks one plan. One use.
class PlanChecker {
 public:
  explicit PlanChecker(const Plan& plan) : plan_(plan) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckSymbols());
    RETURN_IF_ERROR(CheckBuffers());
    RETURN_IF_ERROR(CheckSteps());
    return CheckOutputs();
  }

 private:
  absl::Status CheckSymbols() const {
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      const PlanSymbol& symbol = plan_.symbols[i];
      if (symbol.source == PlanSymbol::Source::kStep) continue;
      if (!SourceExists(symbol)) {
        return Broken(
            "L1", absl::StrCat("symbol ", symbol.name, ": input ", symbol.input,
                               " dim ", symbol.dim, " is not a source of it"));
      }
    }
    return absl::OkStatus();
  }

  bool SourceExists(const PlanSymbol& symbol) const {
    if (!InRange(symbol.input, plan_.inputs.size())) return false;
    const PlanInput& input = plan_.inputs[symbol.input];
    if (symbol.source == PlanSymbol::Source::kScalar) {
      return std::holds_alternative<PlanScalarInput>(input);
    }
    const auto* tensor = std::get_if<PlanTensorInput>(&input);
    if (tensor == nullptr) return false;
    return symbol.source == PlanSymbol::Source::kOffset ||
           InRange(symbol.dim, tensor->sizes.size());
  }

  absl::Status CheckBuffers() const {
    const std::optional<int64_t> arena = Known(plan_, plan_.arena_bytes);
    for (const PlanBuffer& buffer : plan_.buffers) {
      const auto broken = [&](absl::string_view rule, absl::string_view what) {
        return Broken(rule, absl::StrCat("buffer ", buffer.name, ": ", what));
      };
      const std::optional<int64_t> bytes = Known(plan_, buffer.bytes);
      switch (buffer.kind) {
        case PlanBuffer::Kind::kInput:
          if (!InRange(buffer.index, plan_.inputs.size()) ||
              !std::holds_alternative<PlanTensorInput>(
                  plan_.inputs[buffer.index])) {
            return broken("L1", absl::StrCat("input ", buffer.index,
                                             " is no tensor input"));
          }
          break;
        case PlanBuffer::Kind::kConstant:
          if (!InRange(buffer.index, plan_.constants.size())) {
            return broken("L1", absl::StrCat("constant ", buffer.index, " of ",
                                             plan_.constants.size()));
          }
          break;
        case PlanBuffer::Kind::kArena: {
          const std::optional<int64_t> offset = Known(plan_, buffer.offset);
          if (arena && bytes && offset &&
              (*offset < 0 || *bytes < 0 || *offset > *arena - *bytes)) {
            return broken("L3", absl::StrCat(*bytes, " bytes at ", *offset,
                                             " in an arena of ", *arena));
          }
          break;
        }
        case PlanBuffer::Kind::kOutput:
          if (bytes && *bytes < 0) {
            return broken("L3", absl::StrCat(*bytes, " bytes"));
          }
          break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSteps() {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const absl::Status status = std::visit(
          [this](const auto& step) { return Check(step); }, plan_.steps[i]);
      RETURN_IF_ERROR(Annotate(status, absl::StrCat("step ", i)));
    }
    return CheckBound();
  }

  absl::Status Check(const PlanLaunch& launch) const {
    if (!InRange(launch.kernel, plan_.kernels.size())) {
      return Broken("L1", absl::StrCat("kernel ", launch.kernel, " of ",
                                       plan_.kernels.size()));
    }
    for (const PlanArg& arg : launch.args) {
      if (arg.kind == PlanArg::Kind::kBuffer) {
        RETURN_IF_ERROR(CheckBufferNumber(arg.buffer));
      }
    }
    for (const uint32_t extent : launch.block) {
      if (extent < 1 || extent > 1024) {
        return Broken(
            "L4", absl::StrCat("block extent ", extent, ", 1 to 1024 is due"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Check(const PlanExtern& call) const {
    for (const PlanView& view : call.inputs) RETURN_IF_ERROR(CheckView(view));
    for (const PlanView& view : call.outputs) RETURN_IF_ERROR(CheckView(view));
    return absl::OkStatus();
  }

  absl::Status Check(const PlanCopy& copy) const {
    RETURN_IF_ERROR(CheckView(copy.from));
    RETURN_IF_ERROR(CheckView(copy.to));
    if (copy.from.dtype != copy.to.dtype ||
        copy.from.sizes.size() != copy.to.sizes.size()) {
      return Broken("L6", absl::StrCat("copy of ", ShortName(copy.from.dtype),
                                       " rank ", copy.from.sizes.size(), " to ",
                                       ShortName(copy.to.dtype), " rank ",
                                       copy.to.sizes.size()));
    }
    return absl::OkStatus();
  }

  absl::Status Check(const PlanFill& fill) const { return CheckView(fill.to); }
  absl::Status Check(const PlanAssert&) const { return absl::OkStatus(); }

  absl::Status Check(const PlanBindSymbol& bind) {
    if (!InRange(bind.symbol, plan_.symbols.size()) ||
        plan_.symbols[bind.symbol].source != PlanSymbol::Source::kStep) {
      return Broken("L5", absl::StrCat("symbol ", bind.symbol,
                                       " is not one that a step binds"));
    }
    bound_.resize(plan_.symbols.size());
    if (bound_[bind.symbol]) {
      return Broken("L5",
                    absl::StrCat("symbol ", plan_.symbols[bind.symbol].name,
                                 " is bound twice"));
    }
    bound_[bind.symbol] = true;
    return absl::OkStatus();
  }

  absl::Status CheckBound() {
    bound_.resize(plan_.symbols.size());
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      if (plan_.symbols[i].source == PlanSymbol::Source::kStep && !bound_[i]) {
        return Broken("L5", absl::StrCat("symbol ", plan_.symbols[i].name,
                                         " is bound by no step"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() const {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const auto* view = std::get_if<PlanView>(&plan_.outputs[i]);
      if (view == nullptr) continue;
      RETURN_IF_ERROR(Annotate(CheckView(*view), absl::StrCat("output ", i)));
      if (plan_.buffers[view->buffer].kind == PlanBuffer::Kind::kArena) {
        return Broken("L7", absl::StrCat("output ", i, ": views ",
                                         plan_.buffers[view->buffer].name,
                                         ", which is in the arena"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBufferNumber(int32_t buffer) const {
    if (InRange(buffer, plan_.buffers.size())) return absl::OkStatus();
    return Broken(
        "L1", absl::StrCat("buffer ", buffer, " of ", plan_.buffers.size()));
  }

  // L1, L2 and, where all numbers are constants, L3.
  absl::Status CheckView(const PlanView& view) const {
    RETURN_IF_ERROR(CheckBufferNumber(view.buffer));
    if (view.sizes.size() != view.strides.size()) {
      return Broken(
          "L2", absl::StrCat("a view with ", view.sizes.size(), " sizes and ",
                             view.strides.size(), " strides"));
    }
    const PlanBuffer& buffer = plan_.buffers[view.buffer];
    // An input ends where its caller's memory does, which is not our number.
    if (buffer.kind == PlanBuffer::Kind::kInput) return absl::OkStatus();
    const std::optional<int64_t> bytes =
        buffer.kind == PlanBuffer::Kind::kConstant
            ? static_cast<int64_t>(plan_.constants[buffer.index].bytes.size())
            : Known(plan_, buffer.bytes);
    const std::optional<int64_t> offset = Known(plan_, view.offset);
    if (!bytes || !offset) return absl::OkStatus();
    int64_t last = *offset;
    for (size_t i = 0; i < view.sizes.size(); ++i) {
      const std::optional<int64_t> size = Known(plan_, view.sizes[i]);
      const std::optional<int64_t> stride = Known(plan_, view.strides[i]);
      if (!size || !stride || *size == 0) return absl::OkStatus();
      last += (*size - 1) * *stride;
    }
    if (*offset < 0 || last < 0 ||
        (last + 1) * SizeInBytes(view.dtype) > *bytes) {
      return Broken(
          "L3", absl::StrCat("a view of ", buffer.name, ": elements ", *offset,
                             " to ", last, " of ", ShortName(view.dtype),
                             " in ", *bytes, " bytes"));
    }
    return absl::OkStatus();
  }

  static bool InRange(int32_t index, size_t size) {
    return index >= 0 && static_cast<size_t>(index) < size;
  }

  const Plan& plan_;
  std::vector<bool> bound_;
};

}  // namespace

absl::Status CheckPlan(const Plan& plan) { return PlanChecker(plan).Run(); }

}  // namespace kiln

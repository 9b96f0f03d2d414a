#include "proto/plan/plan_verifier.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

constexpr uint32_t kMaxBlockExtent = 1024;

absl::Status Corrupt(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("launch plan: ", what));
}

absl::Status Broken(absl::string_view rule, absl::string_view what) {
  return Corrupt(absl::StrCat(rule, ": ", what));
}

// Checks one plan. One use.
class PlanVerifier {
 public:
  PlanVerifier(const wire::CompilePlan& compiled, int modules)
      : compiled_(compiled), plan_(compiled.plan()), modules_(modules) {
    bound_.resize(plan_.symbols_size());
  }

  absl::Status Run() {
    RETURN_IF_ERROR(Symbols());
    RETURN_IF_ERROR(Inputs());
    RETURN_IF_ERROR(Memory());
    RETURN_IF_ERROR(Kernels());
    for (int i = 0; i < plan_.steps_size(); ++i) {
      RETURN_IF_ERROR(Annotate(Step(plan_.steps(i)), absl::StrCat("step ", i)));
    }
    RETURN_IF_ERROR(AllBound());
    return Outputs();
  }

 private:
  static bool InRange(uint32_t index, int size) {
    return index < static_cast<uint32_t>(size);
  }

  // Sound, and its value where it reads no symbol.
  absl::StatusOr<std::optional<int64_t>> Value(const wire::SymExpr& e) const {
    if (e.code_size() == 0) return std::optional<int64_t>(e.value());
    const auto program = SymProgram::FromWire(e, plan_.symbols_size());
    if (!program.ok()) return Corrupt(program.status().message());
    if (program->symbols_needed() > 0) return std::optional<int64_t>();
    ASSIGN_OR_RETURN(const int64_t value, program->EvaluateChecked({}));
    return std::optional<int64_t>(value);
  }

  template <typename Exprs>
  absl::Status AllSound(const Exprs& exprs) const {
    for (const wire::SymExpr& e : exprs) {
      RETURN_IF_ERROR(Value(e).status());
    }
    return absl::OkStatus();
  }

  static absl::Status KnownDType(wire::DType dtype) {
    if (DTypeFromWire(dtype).has_value()) return absl::OkStatus();
    return Broken("R2", absl::StrCat("dtype ", static_cast<int>(dtype),
                                     " is not one that Kiln computes with"));
  }

  bool SourceExists(const wire::SymbolSource& source) const {
    if (!InRange(source.input(), plan_.inputs_size())) return false;
    const wire::PlanInput& input = plan_.inputs(source.input());
    if (source.kind() == wire::SymbolSource::KIND_SCALAR) {
      return input.has_scalar();
    }
    if (input.has_scalar()) return false;
    return source.kind() == wire::SymbolSource::KIND_OFFSET ||
           InRange(source.dim(), input.tensor().sizes_size());
  }

  absl::Status Symbols() const {
    for (const wire::PlanSymbol& symbol : plan_.symbols()) {
      const wire::SymbolSource& source = symbol.source();
      if (source.kind() == wire::SymbolSource::KIND_STEP) continue;
      if (source.kind() <= wire::SymbolSource::KIND_UNSPECIFIED ||
          source.kind() > wire::SymbolSource::KIND_STEP) {
        return Broken("R1",
                      absl::StrCat("symbol ", symbol.name(), " has no source"));
      }
      if (!SourceExists(source)) {
        return Broken("R1", absl::StrCat("symbol ", symbol.name(), ": input ",
                                         source.input(), " dim ", source.dim(),
                                         " is not a source of it"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Inputs() const {
    for (int i = 0; i < plan_.inputs_size(); ++i) {
      const wire::PlanInput& input = plan_.inputs(i);
      if (input.has_scalar()) {
        RETURN_IF_ERROR(Value(input.scalar()).status());
        continue;
      }
      const wire::TensorMeta& meta = input.tensor();
      RETURN_IF_ERROR(KnownDType(meta.dtype()));
      RETURN_IF_ERROR(AllSound(meta.sizes()));
      RETURN_IF_ERROR(AllSound(meta.strides()));
      RETURN_IF_ERROR(Value(meta.storage_offset()).status());
      if (meta.sizes_size() != meta.strides_size()) {
        return Broken(
            "R2", absl::StrCat("input ", i, " has ", meta.sizes_size(),
                               " sizes and ", meta.strides_size(), " strides"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Memory() const {
    ASSIGN_OR_RETURN(const std::optional<int64_t> arena,
                     Value(plan_.arena_bytes()));
    for (const wire::PlanBuffer& buffer : plan_.buffers()) {
      RETURN_IF_ERROR(Buffer(buffer, arena));
    }
    return absl::OkStatus();
  }

  absl::Status Buffer(const wire::PlanBuffer& buffer,
                      std::optional<int64_t> arena) const {
    const auto broken = [&](absl::string_view rule, absl::string_view what) {
      return Broken(rule, absl::StrCat("buffer ", buffer.name(), what));
    };
    ASSIGN_OR_RETURN(const std::optional<int64_t> bytes, Value(buffer.bytes()));
    ASSIGN_OR_RETURN(const std::optional<int64_t> offset,
                     Value(buffer.offset()));
    switch (buffer.kind()) {
      case wire::PlanBuffer::KIND_INPUT:
        if (!InRange(buffer.index(), plan_.inputs_size()) ||
            plan_.inputs(buffer.index()).has_scalar()) {
          return broken("R1", absl::StrCat(": input ", buffer.index(),
                                           " is not a tensor"));
        }
        return absl::OkStatus();
      case wire::PlanBuffer::KIND_CONSTANT:
        if (!InRange(buffer.index(), compiled_.constants_size())) {
          return broken("R1", absl::StrCat(": constant ", buffer.index(),
                                           " of ", compiled_.constants_size()));
        }
        return absl::OkStatus();
      case wire::PlanBuffer::KIND_ARENA:
        if (arena && bytes && offset &&
            (*offset < 0 || *bytes < 0 || *offset > *arena - *bytes)) {
          return broken("R3", absl::StrCat(": ", *bytes, " bytes at ", *offset,
                                           " in an arena of ", *arena));
        }
        return absl::OkStatus();
      case wire::PlanBuffer::KIND_OUTPUT:
      case wire::PlanBuffer::KIND_OWN:
      case wire::PlanBuffer::KIND_COUNTERS:
        if (bytes && *bytes < 0) {
          return broken("R3", absl::StrCat(": ", *bytes, " bytes"));
        }
        return absl::OkStatus();
      default:  // an open enum of the wire
        return broken("R1", " has no kind");
    }
  }

  absl::Status Kernels() const {
    for (const wire::PlanKernel& kernel : plan_.kernels()) {
      if (!InRange(kernel.module(), modules_)) {
        return Broken("R1", absl::StrCat("kernel ", kernel.label(), ": module ",
                                         kernel.module(), " of ", modules_));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Step(const wire::PlanStep& step) {
    switch (step.kind_case()) {
      case wire::PlanStep::kLaunch:
        return Launch(step.launch());
      case wire::PlanStep::kExternCall:
        return Extern(step.extern_call());
      case wire::PlanStep::kCopy:
        return Copy(step.copy());
      case wire::PlanStep::kFill:
        return View(step.fill().to());
      case wire::PlanStep::kAssertion:
        return Value(step.assertion().condition()).status();
      case wire::PlanStep::kBindSymbol:
        return Bind(step.bind_symbol());
      case wire::PlanStep::kHostCall:
        RETURN_IF_ERROR(Views(step.host_call().inputs()));
        return Views(step.host_call().outputs());
      case wire::PlanStep::kRegion:
        return absl::OkStatus();
      case wire::PlanStep::KIND_NOT_SET:
        break;
    }
    return Broken("R1", "a step of no kind");
  }

  absl::Status Launch(const wire::LaunchStep& launch) const {
    if (!InRange(launch.kernel(), plan_.kernels_size())) {
      return Broken("R1", absl::StrCat("kernel ", launch.kernel(), " of ",
                                       plan_.kernels_size()));
    }
    for (const wire::KernelArg& arg : launch.args()) {
      if (arg.has_buffer()) {
        RETURN_IF_ERROR(BufferNumber(arg.buffer().buffer()));
        RETURN_IF_ERROR(Value(arg.buffer().offset_bytes()).status());
        RETURN_IF_ERROR(AllSound(arg.buffer().sizes()));
      } else if (arg.has_scalar()) {
        RETURN_IF_ERROR(Value(arg.scalar()).status());
      } else if (!arg.has_seed() && !arg.has_seed_slot()) {
        return Broken("R1", "a kernel argument of no kind");
      }
    }
    if (launch.grid_size() != 3 || launch.block_size() != 3) {
      return Broken("R4", absl::StrCat(launch.grid_size(), " grid and ",
                                       launch.block_size(),
                                       " block extents, expected 3 of each"));
    }
    for (const uint32_t extent : launch.block()) {
      if (extent < 1 || extent > kMaxBlockExtent) {
        return Broken("R4", absl::StrCat("block extent ", extent,
                                         ", expected 1 to ", kMaxBlockExtent));
      }
    }
    return AllSound(launch.grid());
  }

  absl::Status Extern(const wire::ExternStep& call) const {
    RETURN_IF_ERROR(Views(call.inputs()));
    RETURN_IF_ERROR(Views(call.outputs()));
    for (const wire::Attribute& attribute : call.attributes()) {
      if (attribute.kind_case() == wire::Attribute::KIND_NOT_SET) {
        return Broken("R1", absl::StrCat("attribute ", attribute.name(),
                                         " has no value"));
      }
      RETURN_IF_ERROR(AllSound(attribute.ints().values()));
    }
    return absl::OkStatus();
  }

  absl::Status Copy(const wire::CopyStep& copy) const {
    RETURN_IF_ERROR(View(copy.from()));
    RETURN_IF_ERROR(View(copy.to()));
    if (copy.from().dtype() == copy.to().dtype() &&
        copy.from().sizes_size() == copy.to().sizes_size()) {
      return absl::OkStatus();
    }
    return Broken(
        "R6",
        absl::StrCat("copy of ", ShortName(*DTypeFromWire(copy.from().dtype())),
                     " rank ", copy.from().sizes_size(), " to ",
                     ShortName(*DTypeFromWire(copy.to().dtype())), " rank ",
                     copy.to().sizes_size()));
  }

  absl::Status Bind(const wire::BindSymbolStep& bind) {
    if (!InRange(bind.symbol(), plan_.symbols_size()) ||
        plan_.symbols(bind.symbol()).source().kind() !=
            wire::SymbolSource::KIND_STEP) {
      return Broken("R5", absl::StrCat("symbol ", bind.symbol(),
                                       " is not one that a step binds"));
    }
    if (bound_[bind.symbol()]) {
      return Broken("R5",
                    absl::StrCat("symbol ", plan_.symbols(bind.symbol()).name(),
                                 " is bound twice"));
    }
    bound_[bind.symbol()] = true;
    return Value(bind.value()).status();
  }

  absl::Status AllBound() const {
    for (int i = 0; i < plan_.symbols_size(); ++i) {
      const wire::PlanSymbol& symbol = plan_.symbols(i);
      if (symbol.source().kind() == wire::SymbolSource::KIND_STEP &&
          !bound_[i]) {
        return Broken("R5", absl::StrCat("symbol ", symbol.name(),
                                         " is bound by no step"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Outputs() const {
    for (int i = 0; i < plan_.outputs_size(); ++i) {
      const wire::PlanOutput& output = plan_.outputs(i);
      if (output.has_sym()) RETURN_IF_ERROR(Value(output.sym()).status());
      if (!output.has_view()) continue;
      RETURN_IF_ERROR(
          Annotate(View(output.view()), absl::StrCat("output ", i)));
      const wire::PlanBuffer& buffer = plan_.buffers(output.view().buffer());
      if (buffer.kind() == wire::PlanBuffer::KIND_ARENA ||
          buffer.kind() == wire::PlanBuffer::KIND_OWN ||
          buffer.kind() == wire::PlanBuffer::KIND_COUNTERS) {
        return Broken("R7",
                      absl::StrCat("output ", i, ": views ", buffer.name(),
                                   ", which is given back"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status BufferNumber(uint32_t buffer) const {
    if (InRange(buffer, plan_.buffers_size())) return absl::OkStatus();
    return Broken(
        "R1", absl::StrCat("buffer ", buffer, " of ", plan_.buffers_size()));
  }

  template <typename List>
  absl::Status Views(const List& views) const {
    for (const wire::BufferView& view : views) RETURN_IF_ERROR(View(view));
    return absl::OkStatus();
  }

  // R1, R2 and, where all numbers are constants, R3.
  absl::Status View(const wire::BufferView& view) const {
    RETURN_IF_ERROR(KnownDType(view.dtype()));
    RETURN_IF_ERROR(BufferNumber(view.buffer()));
    if (view.sizes_size() != view.strides_size()) {
      return Broken(
          "R2", absl::StrCat("a view with ", view.sizes_size(), " sizes and ",
                             view.strides_size(), " strides"));
    }
    ASSIGN_OR_RETURN(const std::optional<int64_t> offset, Value(view.offset()));
    bool constant = offset.has_value(), empty = false;
    int64_t last = offset.value_or(0);
    for (int i = 0; i < view.sizes_size(); ++i) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> size, Value(view.sizes(i)));
      ASSIGN_OR_RETURN(const std::optional<int64_t> stride,
                       Value(view.strides(i)));
      constant = constant && size && stride;
      empty = empty || size == 0;
      int64_t reach = 0;
      if (!constant || empty) continue;
      if (__builtin_mul_overflow(*size - 1, *stride, &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        return Broken("R3", "a view longer than 64 bits can say");
      }
    }
    if (!constant || empty) return absl::OkStatus();
    return Inside(view, *offset, last);
  }

  absl::Status Inside(const wire::BufferView& view, int64_t first,
                      int64_t last) const {
    const wire::PlanBuffer& buffer = plan_.buffers(view.buffer());
    // An input ends where its caller's memory does, which is not our number.
    if (buffer.kind() == wire::PlanBuffer::KIND_INPUT) return absl::OkStatus();
    std::optional<int64_t> bytes;
    if (buffer.kind() == wire::PlanBuffer::KIND_CONSTANT) {
      bytes = static_cast<int64_t>(
          compiled_.constants(buffer.index()).data().size());
    } else {
      ASSIGN_OR_RETURN(bytes, Value(buffer.bytes()));
    }
    const DType dtype = *DTypeFromWire(view.dtype());
    if (!bytes || (first >= 0 && last >= 0 &&
                   (last + 1) * SizeInBytes(dtype) <= *bytes)) {
      return absl::OkStatus();
    }
    return Broken(
        "R3",
        absl::StrCat("a view of ", buffer.name(), ": elements ", first, " to ",
                     last, " of ", ShortName(dtype), " in ", *bytes, " bytes"));
  }

  const wire::CompilePlan& compiled_;
  const wire::LaunchPlan& plan_;
  const int modules_;
  std::vector<bool> bound_;
};

}  // namespace

absl::Status VerifyLaunchPlan(const wire::CompilePlan& compiled, int modules) {
  return PlanVerifier(compiled, modules).Run();
}

}  // namespace kiln

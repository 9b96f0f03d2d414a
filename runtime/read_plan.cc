#include "runtime/read_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"
#include "proto/plan/plan_verifier.h"

namespace kiln {
namespace {

// Symbols without a stated range may be anything a size can be.
constexpr int64_t kNoMaximum = int64_t{1} << 62;

absl::Status Corrupt(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("launch plan: ", what));
}

// Reads one plan. One use.
class PlanReader {
 public:
  explicit PlanReader(const wire::Artifact& artifact)
      : artifact_(artifact), wire_(artifact.compiled().plan()) {}

  absl::StatusOr<Plan> Read() {
    RETURN_IF_ERROR(
        VerifyLaunchPlan(artifact_.compiled(), artifact_.objects_size()));
    RETURN_IF_ERROR(ReadSymbols());
    RETURN_IF_ERROR(ReadInputs());
    RETURN_IF_ERROR(ReadMemory());
    RETURN_IF_ERROR(ReadKernels());
    for (const wire::PlanStep& step : wire_.steps()) {
      RETURN_IF_ERROR(
          Annotate(ReadStep(step), absl::StrCat("step ", plan_.steps.size())));
    }
    RETURN_IF_ERROR(ReadOutputs());
    return std::move(plan_);
  }

 private:
  // Each expression once: its number in plan_.expressions.
  absl::StatusOr<ExprId> Intern(const wire::SymExpr& expr) {
    if (expr.code_size() == 0) return InternConstant(expr.value());
    const std::string spelling = expr.SerializeAsString();
    const auto [at, fresh] = by_spelling_.try_emplace(spelling, 0);
    if (!fresh) return at->second;
    absl::StatusOr<SymProgram> program =
        SymProgram::FromWire(expr, wire_.symbols_size());
    if (!program.ok()) return Corrupt(program.status().message());
    PlanExpression expression;
    for (const wire::SymInstruction& in : expr.code()) {
      if (in.op() == wire::SYM_OP_SYMBOL) {
        expression.symbols.push_back(static_cast<int32_t>(in.value()));
      }
    }
    std::sort(expression.symbols.begin(), expression.symbols.end());
    expression.symbols.erase(
        std::unique(expression.symbols.begin(), expression.symbols.end()),
        expression.symbols.end());
    // "2 * 3" is a constant too.
    if (expression.symbols.empty()) {
      ASSIGN_OR_RETURN(const int64_t value, program->EvaluateChecked({}));
      return at->second = InternConstant(value);
    }
    expression.program = *std::move(program);
    plan_.expressions.push_back(std::move(expression));
    return at->second = static_cast<ExprId>(plan_.expressions.size() - 1);
  }

  ExprId InternConstant(int64_t value) {
    const auto [at, fresh] = by_value_.try_emplace(value, 0);
    if (fresh) {
      at->second = static_cast<ExprId>(plan_.expressions.size());
      plan_.expressions.push_back({SymProgram::Constant(value), {}});
    }
    return at->second;
  }

  template <typename Exprs>
  absl::StatusOr<std::vector<ExprId>> InternAll(const Exprs& exprs) {
    std::vector<ExprId> ids;
    ids.reserve(exprs.size());
    for (const wire::SymExpr& expr : exprs) {
      ASSIGN_OR_RETURN(const ExprId id, Intern(expr));
      ids.push_back(id);
    }
    return ids;
  }

  absl::Status ReadSymbols() {
    for (const wire::PlanSymbol& from : wire_.symbols()) {
      PlanSymbol symbol;
      symbol.name = from.name();
      symbol.input = static_cast<int32_t>(from.source().input());
      symbol.dim = static_cast<int32_t>(from.source().dim());
      const bool unstated = from.min() == 0 && from.max() == 0;
      symbol.min = from.min();
      symbol.max = unstated ? kNoMaximum : from.max();
      switch (from.source().kind()) {
        case wire::SymbolSource::KIND_SIZE:
          symbol.source = PlanSymbol::Source::kSize;
          break;
        case wire::SymbolSource::KIND_STRIDE:
          symbol.source = PlanSymbol::Source::kStride;
          break;
        case wire::SymbolSource::KIND_OFFSET:
          symbol.source = PlanSymbol::Source::kOffset;
          break;
        case wire::SymbolSource::KIND_SCALAR:
          symbol.source = PlanSymbol::Source::kScalar;
          break;
        case wire::SymbolSource::KIND_STEP:
          symbol.source = PlanSymbol::Source::kStep;
          break;
        default:  // an open enum of the wire
          return Corrupt(absl::StrCat("symbol ", from.name(), ": no source"));
      }
      plan_.symbols.push_back(std::move(symbol));
    }
    return absl::OkStatus();
  }

  absl::Status ReadInputs() {
    for (const wire::PlanInput& from : wire_.inputs()) {
      if (from.has_scalar()) {
        ASSIGN_OR_RETURN(const ExprId value, Intern(from.scalar()));
        plan_.inputs.push_back(PlanScalarInput{value});
        continue;
      }
      const wire::TensorMeta& meta = from.tensor();
      PlanTensorInput input;
      ASSIGN_OR_RETURN(input.dtype, ReadDType(meta.dtype()));
      ASSIGN_OR_RETURN(input.sizes, InternAll(meta.sizes()));
      ASSIGN_OR_RETURN(input.strides, InternAll(meta.strides()));
      ASSIGN_OR_RETURN(input.storage_offset, Intern(meta.storage_offset()));
      input.alignment_bytes = from.alignment_bytes() == 0
                                  ? SizeInBytes(input.dtype)
                                  : from.alignment_bytes();
      plan_.inputs.push_back(std::move(input));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMemory() {
    for (const wire::Constant& constant : artifact_.compiled().constants()) {
      if (constant.data().empty() && !constant.digest().empty()) {
        return MakeError(ErrorReason::kUnsupportedOp,
                         absl::StrCat("constant ", plan_.constants.size(),
                                      ": travels by digest"));
      }
      plan_.constants.push_back({constant.data()});
    }
    for (const wire::PlanBuffer& from : wire_.buffers()) {
      PlanBuffer buffer;
      buffer.index = static_cast<int32_t>(from.index());
      buffer.name = from.name();
      ASSIGN_OR_RETURN(buffer.bytes, Intern(from.bytes()));
      ASSIGN_OR_RETURN(buffer.offset, Intern(from.offset()));
      switch (from.kind()) {
        case wire::PlanBuffer::KIND_INPUT:
          buffer.kind = PlanBuffer::Kind::kInput;
          break;
        case wire::PlanBuffer::KIND_OUTPUT:
          buffer.kind = PlanBuffer::Kind::kOutput;
          break;
        case wire::PlanBuffer::KIND_ARENA:
          buffer.kind = PlanBuffer::Kind::kArena;
          break;
        case wire::PlanBuffer::KIND_OWN:
          buffer.kind = PlanBuffer::Kind::kOwn;
          break;
        case wire::PlanBuffer::KIND_CONSTANT:
          buffer.kind = PlanBuffer::Kind::kConstant;
          break;
        case wire::PlanBuffer::KIND_COUNTERS:
          buffer.kind = PlanBuffer::Kind::kCounters;
          break;
        default:  // an open enum of the wire
          return Corrupt(absl::StrCat("buffer ", from.name(), ": no kind"));
      }
      plan_.buffers.push_back(std::move(buffer));
    }
    ASSIGN_OR_RETURN(plan_.arena_bytes, Intern(wire_.arena_bytes()));
    return absl::OkStatus();
  }

  absl::Status ReadKernels() {
    for (const wire::PlanKernel& from : wire_.kernels()) {
      plan_.kernels.push_back(
          {from.symbol(), from.label(), static_cast<int32_t>(from.module())});
    }
    return absl::OkStatus();
  }

  absl::Status ReadStep(const wire::PlanStep& step) {
    switch (step.kind_case()) {
      case wire::PlanStep::kLaunch:
        return ReadLaunch(step.launch());
      case wire::PlanStep::kExternCall:
        return ReadExtern(step.extern_call());
      case wire::PlanStep::kCopy: {
        PlanCopy copy;
        ASSIGN_OR_RETURN(copy.from, ReadView(step.copy().from()));
        ASSIGN_OR_RETURN(copy.to, ReadView(step.copy().to()));
        plan_.steps.push_back(std::move(copy));
        return absl::OkStatus();
      }
      case wire::PlanStep::kFill: {
        PlanFill fill;
        ASSIGN_OR_RETURN(fill.to, ReadView(step.fill().to()));
        fill.bits = step.fill().bits();
        plan_.steps.push_back(std::move(fill));
        return absl::OkStatus();
      }
      case wire::PlanStep::kAssertion: {
        ASSIGN_OR_RETURN(const ExprId condition,
                         Intern(step.assertion().condition()));
        plan_.steps.push_back(
            PlanAssert{condition, step.assertion().message()});
        return absl::OkStatus();
      }
      case wire::PlanStep::kBindSymbol: {
        ASSIGN_OR_RETURN(const ExprId value,
                         Intern(step.bind_symbol().value()));
        plan_.steps.push_back(PlanBindSymbol{
            static_cast<int32_t>(step.bind_symbol().symbol()), value});
        return absl::OkStatus();
      }
      case wire::PlanStep::kHostCall:
        return MakeError(
            ErrorReason::kUnsupportedOp,
            absl::StrCat("host call of ", step.host_call().op(),
                         ": the runtime does not call frameworks yet"));
      case wire::PlanStep::kRegion:
        return MakeError(ErrorReason::kUnsupportedOp,
                         absl::StrCat("region ", step.region().kind(),
                                      ": the runtime has no regions yet"));
      case wire::PlanStep::KIND_NOT_SET:
        break;
    }
    return Corrupt("a step of no kind");
  }

  absl::Status ReadLaunch(const wire::LaunchStep& from) {
    PlanLaunch launch;
    launch.kernel = static_cast<int32_t>(from.kernel());
    launch.shared_bytes = from.shared_bytes();
    launch.cluster = from.cluster();
    launch.blocks_per_multiprocessor = from.blocks_per_multiprocessor();
    launch.programmatic_dependent_launch = from.programmatic_dependent_launch();
    for (const wire::KernelArg& arg : from.args()) {
      PlanArg out;
      if (arg.has_buffer()) {
        out.buffer = static_cast<int32_t>(arg.buffer().buffer());
        ASSIGN_OR_RETURN(out.value, Intern(arg.buffer().offset_bytes()));
      } else if (arg.has_scalar()) {
        out.kind = PlanArg::Kind::kScalar;
        ASSIGN_OR_RETURN(out.value, Intern(arg.scalar()));
      } else {
        out.kind =
            arg.has_seed() ? PlanArg::Kind::kSeed : PlanArg::Kind::kSeedSlot;
      }
      launch.args.push_back(out);
    }
    for (int i = 0; i < 3; ++i) {
      ASSIGN_OR_RETURN(launch.grid[i], Intern(from.grid(i)));
      launch.block[i] = from.block(i);
    }
    plan_.steps.push_back(std::move(launch));
    return absl::OkStatus();
  }

  absl::Status ReadExtern(const wire::ExternStep& from) {
    PlanExtern call;
    call.name = from.name();
    for (const wire::BufferView& view : from.inputs()) {
      ASSIGN_OR_RETURN(PlanView input, ReadView(view));
      call.inputs.push_back(std::move(input));
    }
    for (const wire::BufferView& view : from.outputs()) {
      ASSIGN_OR_RETURN(PlanView output, ReadView(view));
      call.outputs.push_back(std::move(output));
    }
    call.client_nodes.assign(from.client_nodes().begin(),
                             from.client_nodes().end());
    for (const wire::Attribute& attribute : from.attributes()) {
      PlanAttribute out;
      out.name = attribute.name();
      switch (attribute.kind_case()) {
        case wire::Attribute::kIntValue:
          out.value = attribute.int_value();
          break;
        case wire::Attribute::kFloatValue:
          out.value = attribute.float_value();
          break;
        case wire::Attribute::kStringValue:
          out.value = attribute.string_value();
          break;
        case wire::Attribute::kInts: {
          ASSIGN_OR_RETURN(out.value, InternAll(attribute.ints().values()));
          break;
        }
        case wire::Attribute::KIND_NOT_SET:
          return Corrupt(
              absl::StrCat("attribute ", attribute.name(), ": no value"));
      }
      call.attributes.push_back(std::move(out));
    }
    plan_.steps.push_back(std::move(call));
    return absl::OkStatus();
  }

  absl::Status ReadOutputs() {
    for (const wire::PlanOutput& from : wire_.outputs()) {
      if (from.has_view()) {
        ASSIGN_OR_RETURN(PlanView view, ReadView(from.view()));
        plan_.outputs.push_back(std::move(view));
      } else if (from.has_sym()) {
        ASSIGN_OR_RETURN(const ExprId value, Intern(from.sym()));
        plan_.outputs.push_back(PlanInteger{value});
      } else {
        plan_.outputs.push_back(PlanNone{});
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PlanView> ReadView(const wire::BufferView& from) {
    PlanView view;
    view.buffer = static_cast<int32_t>(from.buffer());
    ASSIGN_OR_RETURN(view.dtype, ReadDType(from.dtype()));
    ASSIGN_OR_RETURN(view.sizes, InternAll(from.sizes()));
    ASSIGN_OR_RETURN(view.strides, InternAll(from.strides()));
    ASSIGN_OR_RETURN(view.offset, Intern(from.offset()));
    return view;
  }

  static absl::StatusOr<DType> ReadDType(wire::DType from) {
    const std::optional<DType> dtype = DTypeFromWire(from);
    if (dtype.has_value()) return *dtype;
    return Corrupt(absl::StrCat("dtype ", static_cast<int>(from)));
  }

  const wire::Artifact& artifact_;
  const wire::LaunchPlan& wire_;
  Plan plan_;
  absl::flat_hash_map<int64_t, ExprId> by_value_;
  absl::flat_hash_map<std::string, ExprId> by_spelling_;
};

}  // namespace

absl::StatusOr<Plan> ReadPlan(const wire::Artifact& artifact) {
  return PlanReader(artifact).Read();
}

}  // namespace kiln

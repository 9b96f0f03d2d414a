#include "runtime/bind_launches.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/refusal.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Binds one plan. One use.
class Binder {
 public:
  Binder(const LoadedArtifact& artifact, absl::Span<const InputView> fixed)
      : artifact_(artifact), plan_(artifact.view().plan()) {
    bound_.plan = &plan_;
    bound_.constants = std::make_unique<ConstantOperands>(artifact, fixed);
  }

  absl::StatusOr<BoundPlan> Run() {
    NumberSymbolWaves();
    PlaceExpressions();
    PlaceBuffers();
    if (expression_wave_[plan_.arena_bytes] > 0) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       "launch plan: an arena whose size a step binds");
    }
    for (const PlanStep& step : plan_.steps) {
      step_now_ = static_cast<int32_t>(&step - plan_.steps.data());
      const absl::Status status =
          std::visit([this](const auto& s) { return Bind(s); }, step);
      if (Refused(step, status)) continue;
      RETURN_IF_ERROR(
          Annotate(status, absl::StrCat("step ", bound_.steps.size())));
    }
    if (!refused_.ok()) return WithRefusals(refused_, std::move(refusals_));
    bound_.memory = EventsOf(plan_, KnownFrom());
    FindWholeResults();
    // Outputs are read when all steps are done.
    return std::move(bound_);
  }

 private:
  // Whether no library does a step: all such are told of at once.
  bool Refused(const PlanStep& step, const absl::Status& status) {
    const auto* call = std::get_if<PlanExtern>(&step);
    if (call == nullptr || call->client_nodes.empty() ||
        ReasonOf(status) != ErrorReason::kUnsupportedOp) {
      return false;
    }
    refused_.Update(status);
    for (const uint32_t node : call->client_nodes) {
      refusals_.refusals.push_back({node, "", ErrorReason::kUnsupportedOp,
                                    std::string(status.message())});
    }
    return true;
  }

  // Inputs' symbols belong to wave 0, the i-th bound one to wave i.
  void NumberSymbolWaves() {
    symbol_wave_.resize(plan_.symbols.size(), 0);
    int32_t wave = 0;
    for (const PlanStep& step : plan_.steps) {
      const auto* bind = std::get_if<PlanBindSymbol>(&step);
      if (bind != nullptr) symbol_wave_[bind->symbol] = ++wave;
    }
    bound_.waves.resize(wave + 1);
  }

  void PlaceExpressions() {
    for (size_t id = 0; id < plan_.expressions.size(); ++id) {
      const PlanExpression& expression = plan_.expressions[id];
      int32_t wave = 0;
      for (const int32_t symbol : expression.symbols) {
        wave = std::max(wave, symbol_wave_[symbol]);
      }
      expression_wave_.push_back(wave);
      if (expression.program.is_constant()) {
        bound_.values.push_back(expression.program.Evaluate({}));
      } else {
        bound_.values.push_back(0);
        bound_.waves[wave].expressions.push_back(static_cast<ExprId>(id));
      }
    }
    bound_.values.push_back(0);
  }

  void PlaceBuffers() {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlanBuffer& buffer = plan_.buffers[i];
      int32_t wave = 0;
      const bool allocated = buffer.kind == PlanBuffer::Kind::kOutput ||
                             buffer.kind == PlanBuffer::Kind::kOwn;
      if (allocated || buffer.kind == PlanBuffer::Kind::kCounters) {
        wave = expression_wave_[buffer.bytes];
      } else if (buffer.kind == PlanBuffer::Kind::kArena) {
        wave = expression_wave_[buffer.offset];
      }
      buffer_wave_.push_back(wave);
      if (allocated) continue;
      if (buffer.kind == PlanBuffer::Kind::kInput) {
        bound_.inputs.push_back({static_cast<int32_t>(i), buffer.index});
        continue;
      }
      bound_.waves[wave].buffers.push_back(static_cast<int32_t>(i));
    }
  }

  void FindWholeResults() {
    std::vector<int32_t> views(plan_.buffers.size(), 0);
    bound_.whole_results.resize(plan_.buffers.size());
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const auto* view = std::get_if<PlanView>(&plan_.outputs[i]);
      if (view == nullptr) continue;
      bound_.whole_results[view->buffer] =
          ++views[view->buffer] == 1 && IsWhole(*view)
              ? WholeResult{static_cast<int32_t>(i), view}
              : WholeResult{};
    }
  }

  // Whether a view starts where its buffer does, and is known at the start.
  bool IsWhole(const PlanView& view) const {
    const SymProgram& offset = plan_.expressions[view.offset].program;
    const auto is_early = [this](ExprId id) {
      return expression_wave_[id] == 0;
    };
    return plan_.buffers[view.buffer].kind == PlanBuffer::Kind::kOutput &&
           offset.is_constant() && offset.Evaluate({}) == 0 &&
           std::all_of(view.sizes.begin(), view.sizes.end(), is_early) &&
           std::all_of(view.strides.begin(), view.strides.end(), is_early);
  }

  // For each buffer the first step before which its wave has come.
  std::vector<int32_t> KnownFrom() const {
    std::vector<int32_t> wave_from = {0};
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (std::holds_alternative<PlanBindSymbol>(plan_.steps[s])) {
        wave_from.push_back(static_cast<int32_t>(s) + 1);
      }
    }
    std::vector<int32_t> known;
    for (const int32_t wave : buffer_wave_) known.push_back(wave_from[wave]);
    return known;
  }

  absl::Status Bind(const PlanLaunch& launch) {
    BoundLaunch out;
    const PlanKernel& kernel = plan_.kernels[launch.kernel];
    out.kernel = artifact_.kernels()[launch.kernel];
    out.step = step_now_;
    out.label = kernel.label;
    for (const PlanArg& arg : launch.args) {
      switch (arg.kind) {
        case PlanArg::Kind::kBuffer:
          RETURN_IF_ERROR(CheckBuffer(arg.buffer));
          RETURN_IF_ERROR(Check(arg.value));
          out.order.push_back(static_cast<int32_t>(out.pointers.size()));
          out.pointers.push_back({arg.buffer, arg.value});
          break;
        case PlanArg::Kind::kScalar:
          RETURN_IF_ERROR(Check(arg.value));
          out.order.push_back(~static_cast<int32_t>(out.scalars.size()));
          out.scalars.push_back(arg.value);
          break;
        case PlanArg::Kind::kSeed:
          out.order.push_back(~static_cast<int32_t>(out.scalars.size()));
          out.scalars.push_back(BoundLaunch::kSeed);
          break;
        case PlanArg::Kind::kSeedSlot:
          out.order.push_back(static_cast<int32_t>(out.pointers.size()));
          out.pointers.push_back(
              {bound_.seed_slot(),
               static_cast<ExprId>(plan_.expressions.size())});
          bound_.reads_seed_slot = true;
          break;
      }
    }
    for (int i = 0; i < 3; ++i) {
      RETURN_IF_ERROR(Check(launch.grid[i]));
      out.grid[i] = launch.grid[i];
      out.block[i] = launch.block[i];
    }
    const int64_t multiprocessors = artifact_.device().traits().multiprocessors;
    out.most_blocks = launch.blocks_per_multiprocessor * multiprocessors;
    if (out.most_blocks == 0) {
      out.most_blocks = std::numeric_limits<int64_t>::max();
    }
    RETURN_IF_ERROR(Bind({out.label, {}, out.most_blocks}, out.grid));
    out.shared_bytes = launch.shared_bytes;
    out.cluster = launch.cluster;
    out.programmatic_dependent_launch = launch.programmatic_dependent_launch;
    bound_.most_pointers = std::max(bound_.most_pointers, out.pointers.size());
    bound_.most_scalars = std::max(bound_.most_scalars, out.scalars.size());
    bound_.steps.push_back(std::move(out));
    return absl::OkStatus();
  }

  // Refuses a grid that is too large as soon as its extents are known: now, or
  // before the wave's first step.
  absl::Status Bind(BoundGrid grid, absl::Span<const ExprId> extents) {
    bool is_known = true;
    int32_t wave = 0;
    for (int i = 0; i < 3; ++i) {
      grid.grid[i] = extents[i];
      wave = std::max(wave, expression_wave_[extents[i]]);
      is_known &= plan_.expressions[extents[i]].program.is_constant();
    }
    if (is_known) {
      return CheckGrid(grid, artifact_.device().traits(), bound_.values);
    }
    const auto& most = artifact_.device().traits().most_blocks;
    if (most != DeviceTraits().most_blocks) {
      bound_.waves[wave].grids.push_back(grid);
    }
    return absl::OkStatus();
  }

  absl::Status Bind(const PlanExtern& call) {
    for (const PlanView& view : call.inputs) RETURN_IF_ERROR(Check(view));
    for (const PlanView& view : call.outputs) RETURN_IF_ERROR(Check(view));
    for (const PlanAttribute& attribute : call.attributes) {
      const auto* ids = std::get_if<std::vector<ExprId>>(&attribute.value);
      if (ids == nullptr) continue;
      for (const ExprId id : *ids) RETURN_IF_ERROR(Check(id));
    }
    bound_.waves[WaveOfShape(call)].calls.push_back(step_now_);
    BoundExtern out;
    out.step = step_now_;
    ASSIGN_OR_RETURN(
        out.site,
        ExternSite::Bind(call, plan_, artifact_.externs(), *bound_.constants));
    bound_.steps.push_back(std::move(out));
    return absl::OkStatus();
  }

  // The wave from which on all is known that decides how a library is called.
  int32_t WaveOfShape(const PlanExtern& call) const {
    int32_t wave = 0;
    const auto wait_for = [&](const std::vector<ExprId>& ids) {
      for (const ExprId id : ids) wave = std::max(wave, expression_wave_[id]);
    };
    for (const auto* views : {&call.inputs, &call.outputs}) {
      for (const PlanView& view : *views) {
        wait_for(view.sizes);
        wait_for(view.strides);
      }
    }
    for (const PlanAttribute& attribute : call.attributes) {
      const auto* ids = std::get_if<std::vector<ExprId>>(&attribute.value);
      if (ids != nullptr) wait_for(*ids);
    }
    return wave;
  }

  absl::Status Bind(const PlanCopy& copy) {
    RETURN_IF_ERROR(Check(copy.from));
    RETURN_IF_ERROR(Check(copy.to));
    bound_.steps.push_back(BoundCopy{&copy});
    return absl::OkStatus();
  }

  absl::Status Bind(const PlanFill& fill) {
    RETURN_IF_ERROR(Check(fill.to));
    bound_.steps.push_back(BoundFill{&fill});
    return absl::OkStatus();
  }

  absl::Status Bind(const PlanAssert& assertion) {
    RETURN_IF_ERROR(Check(assertion.condition));
    bound_.steps.push_back(BoundAssert{&assertion});
    return absl::OkStatus();
  }

  absl::Status Bind(const PlanBindSymbol& bind) {
    RETURN_IF_ERROR(Check(bind.value));
    ++wave_now_;
    bound_.steps.push_back(BoundBind{bind.symbol, bind.value, wave_now_});
    return absl::OkStatus();
  }

  absl::Status Check(const PlanView& view) const {
    RETURN_IF_ERROR(CheckBuffer(view.buffer));
    RETURN_IF_ERROR(Check(view.offset));
    for (const ExprId id : view.sizes) RETURN_IF_ERROR(Check(id));
    for (const ExprId id : view.strides) RETURN_IF_ERROR(Check(id));
    return absl::OkStatus();
  }

  absl::Status CheckBuffer(int32_t buffer) const {
    if (buffer_wave_[buffer] <= wave_now_) return absl::OkStatus();
    return TooEarly(absl::StrCat("buffer ", plan_.buffers[buffer].name));
  }

  absl::Status Check(ExprId id) const {
    if (expression_wave_[id] <= wave_now_) return absl::OkStatus();
    return TooEarly(plan_.expressions[id].program.ToText());
  }

  static absl::Status TooEarly(absl::string_view what) {
    return MakeError(
        ErrorReason::kArtifactCorrupt,
        absl::StrCat("launch plan: R5: ", what,
                     " is used before the step that binds its symbols"));
  }

  const LoadedArtifact& artifact_;
  const Plan& plan_;
  BoundPlan bound_;
  absl::Status refused_;  // the first step's
  Refusals refusals_;
  int32_t step_now_ = 0;
  int32_t wave_now_ = 0;
  std::vector<int32_t> symbol_wave_;
  std::vector<int32_t> expression_wave_;
  std::vector<int32_t> buffer_wave_;
};

}  // namespace

absl::Status CheckGrid(const BoundGrid& grid, const DeviceTraits& traits,
                       absl::Span<const int64_t> values) {
  int64_t extents[3];
  for (int i = 0; i < 3; ++i) {
    extents[i] = values[grid.grid[i]];
    if (extents[i] <= 0) return absl::OkStatus();  // nothing is launched
  }
  extents[0] = std::min(extents[0], grid.most_blocks);
  return Annotate(CheckGrid(traits, extents), grid.label);
}

absl::StatusOr<BoundPlan> BindLaunches(const LoadedArtifact& artifact,
                                       absl::Span<const InputView> fixed) {
  return Binder(artifact, fixed).Run();
}

}  // namespace kiln

#include "runtime/memory_events.h"

#include <algorithm>
#include <variant>

namespace kiln {
namespace {

constexpr int32_t kNone = -1;

// Calls `visit` with the number of each buffer that a step touches.
template <typename Visit>
struct Toucher {
  Visit visit;

  void operator()(const PlanLaunch& launch) const {
    for (const PlanArg& arg : launch.args) {
      if (arg.kind == PlanArg::Kind::kBuffer) visit(arg.buffer);
    }
  }
  void operator()(const PlanExtern& call) const {
    for (const PlanView& view : call.inputs) visit(view.buffer);
    for (const PlanView& view : call.outputs) visit(view.buffer);
  }
  void operator()(const PlanCopy& copy) const {
    visit(copy.from.buffer);
    visit(copy.to.buffer);
  }
  void operator()(const PlanFill& fill) const { visit(fill.to.buffer); }
  void operator()(const PlanAssert&) const {}
  void operator()(const PlanBindSymbol&) const {}
};

struct Life {
  int32_t first = kNone;
  int32_t last = kNone;
};

std::vector<Life> LivesOf(const Plan& plan) {
  std::vector<Life> lives(plan.buffers.size());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const auto touch = [&, step = static_cast<int32_t>(s)](int32_t buffer) {
      if (lives[buffer].first == kNone) lives[buffer].first = step;
      lives[buffer].last = step;
    };
    std::visit(Toucher<decltype(touch)>{touch}, plan.steps[s]);
  }
  return lives;
}

// For each input the last step that touches it. Not for one that a result views,
// and not where it does not matter.
std::vector<MemoryEvent> InputsDone(const Plan& plan,
                                    const std::vector<Life>& lives) {
  std::vector<int32_t> last(plan.inputs.size(), kNone);
  std::vector<bool> kept(plan.inputs.size(), false);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const PlanBuffer& buffer = plan.buffers[b];
    if (buffer.kind != PlanBuffer::Kind::kInput) continue;
    last[buffer.index] = std::max(last[buffer.index], lives[b].last);
    const SymProgram& bytes = plan.expressions[buffer.bytes].program;
    if (bytes.is_constant() && bytes.Evaluate({}) < kLeastInput) {
      kept[buffer.index] = true;
    }
  }
  for (const PlanOutput& output : plan.outputs) {
    const auto* view = std::get_if<PlanView>(&output);
    if (view == nullptr) continue;
    const PlanBuffer& buffer = plan.buffers[view->buffer];
    if (buffer.kind == PlanBuffer::Kind::kInput) kept[buffer.index] = true;
  }
  std::vector<MemoryEvent> out;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (std::holds_alternative<PlanTensorInput>(plan.inputs[i]) && !kept[i]) {
      out.push_back({last[i], static_cast<int32_t>(i)});
    }
  }
  return out;
}

void SortBySteps(std::vector<MemoryEvent>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const MemoryEvent& a, const MemoryEvent& b) {
                     return a.step < b.step;
                   });
}

}  // namespace

MemoryEvents EventsOf(const Plan& plan, absl::Span<const int32_t> earliest) {
  const std::vector<Life> lives = LivesOf(plan);
  MemoryEvents out;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const auto number = static_cast<int32_t>(b);
    const PlanBuffer::Kind kind = plan.buffers[b].kind;
    const bool touched = lives[b].first != kNone;
    if (kind == PlanBuffer::Kind::kOutput) {
      out.takes.push_back({touched ? lives[b].first : earliest[b], number});
    } else if (kind == PlanBuffer::Kind::kOwn && touched) {
      out.takes.push_back({lives[b].first, number});
      out.gives.push_back({lives[b].last, number});
    }
  }
  out.inputs_done = InputsDone(plan, lives);
  SortBySteps(out.takes);
  SortBySteps(out.gives);
  SortBySteps(out.inputs_done);
  return out;
}

}  // namespace kiln

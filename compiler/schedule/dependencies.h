#ifndef KILN_COMPILER_SCHEDULE_DEPENDENCIES_H_
#define KILN_COMPILER_SCHEDULE_DEPENDENCIES_H_

// Tracks which steps must run before which others while steps are merged into groups.

#include <cstdint>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Calls visit(buffer, writes) for each buffer that a step touches.
template <typename Visit>
void VisitStepBuffers(const LoopNest& nest, Visit visit) {
  for (const ScalarNode& node : nest.body) {
    if (node.op == ScalarOp::kLoad) visit(node.buffer, false);
  }
  for (const Store& store : nest.stores) visit(store.buffer, true);
}
template <typename Visit>
void VisitStepBuffers(const Contraction& contraction, Visit visit) {
  VisitReads(
      contraction, [&](const View& view) { visit(view.buffer, false); },
      [&](const ScalarNode& load) { visit(load.buffer, false); });
  visit(contraction.result().view.buffer, true);
}
template <typename Visit>
void VisitStepBuffers(const Attention& attention, Visit visit) {
  VisitArrays(attention, [&](const View& view, bool writes) {
    visit(view.buffer, writes);
  });
}
template <typename Visit>
void VisitStepBuffers(const RowOrder& order, Visit visit) {
  visit(order.x.buffer, false);
  visit(order.values.buffer, true);
  visit(order.places.buffer, true);
}
template <typename Visit>
void VisitStepBuffers(const LibraryCall& call, Visit visit) {
  for (const View& view : call.inputs) visit(view.buffer, false);
  for (const View& view : call.outputs) visit(view.buffer, true);
}
template <typename Visit>
void VisitStepBuffers(const FlashKernel& kernel, Visit visit) {
  VisitArrays(kernel, [&](const View& view, bool writes) {
    visit(view.buffer, writes);
  });
  if (kernel.sums != kNoBuffer) visit(kernel.sums, kernel.WritesSums());
}
template <typename Visit>
void VisitStepBuffers(const Fill& fill, Visit visit) {
  visit(fill.buffer, true);
}
template <typename Visit>
void VisitStepBuffers(const LoopStep& step, Visit visit) {
  std::visit([&](const auto& s) { VisitStepBuffers(s, visit); }, step);
}
template <typename Visit>
void VisitStepBuffers(const PlannedStep& step, Visit visit) {
  for (const PlannedKernel& kernel : KernelsOf(step)) {
    VisitStepBuffers(kernel.nest, visit);
    for (const BufferId id :
         {kernel.workspace.partials, kernel.workspace.counters}) {
      if (id != kNoBuffer) visit(id, true);
    }
  }
  if (const auto* call = std::get_if<LibraryCall>(&step)) {
    VisitStepBuffers(*call, visit);
  } else if (const auto* flash = std::get_if<FlashKernel>(&step)) {
    VisitStepBuffers(*flash, visit);
  } else if (const auto* fill = std::get_if<Fill>(&step)) {
    VisitStepBuffers(*fill, visit);
  }
}

// The order of steps that their accesses to buffers require: a read stays after earlier
// writes, and a write after earlier reads and writes.
//
// At first each step is a group. A merged group has the number of its first step.
class Dependencies {
 public:
  Dependencies(const std::vector<LoopStep>& steps, size_t buffers);

  // Whether group `a` must run before group `b`, directly or not.
  bool Before(uint32_t a, uint32_t b) const {
    return (ancestors_[b][a / 64] >> (a % 64) & 1) != 0;
  }
  // Whether a third group must run between the two.
  bool SomethingBetween(uint32_t a, uint32_t b) const;

  // Whether a group has the step's number.
  bool IsGroup(uint32_t step) const { return group_of_[step] == step; }
  // The last of a group's steps. Order() puts the group there unless dependencies
  // forbid it.
  uint32_t LastStep(uint32_t group) const { return last_step_[group]; }

  // Merges group `b` into group `a`. No third group may have to run between them.
  void Merge(uint32_t a, uint32_t b);

  // Requires that group `a` runs before group `b`, and after all groups that run before
  // `b`. `b` may not have to run before `a`, and no third group may have to run between
  // them.
  void Precede(uint32_t a, uint32_t b);

  // The groups in an order that respects all dependencies. Of the groups that may come
  // next, the one whose last step comes first in the program is taken.
  std::vector<uint32_t> Order() const;

 private:
  using Set = std::vector<uint64_t>;

  static void Add(uint32_t g, Set& set) {
    set[g / 64] |= uint64_t{1} << (g % 64);
  }
  static void Remove(uint32_t g, Set& set) {
    set[g / 64] &= ~(uint64_t{1} << (g % 64));
  }
  // Adds `more` to the groups that run before `g`.
  void Inherit(uint32_t g, const Set& more);

  std::vector<Set> ancestors_;
  std::vector<std::vector<uint32_t>>
      direct_;                       // groups right before; may be stale
  std::vector<uint32_t> group_of_;   // of each step
  std::vector<uint32_t> last_step_;  // of each group
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_DEPENDENCIES_H_

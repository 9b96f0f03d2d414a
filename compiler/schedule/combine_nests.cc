#include "compiler/schedule/combine_nests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/kernel_fingerprint.h"

namespace kiln {

namespace {

// Kernels that a later one may still join, the latest: a plan of a thousand
// different small kernels is not looked through again and again.
constexpr size_t kOpenGroups = 16;
// 16 bytes, the widest access, of elements as wide as the widest.
constexpr int64_t kAccessBytes = 16;
constexpr int kThreadsOfPart = 256;
constexpr int kNowhere = -1;

bool IsPlain(const PlannedKernel& kernel) {
  if (!std::holds_alternative<CudaPoints>(kernel.variant) &&
      !std::holds_alternative<CpuPoints>(kernel.variant)) {
    return false;
  }
  for (const ScalarNode& node : kernel.nest.body) {
    if (IsReduction(node.op) || node.op == ScalarOp::kRandom ||
        node.op == ScalarOp::kSeed) {
      return false;
    }
  }
  return std::all_of(
      kernel.nest.stores.begin(), kernel.nest.stores.end(),
      [](const Store& store) { return store.mode == StoreMode::kSet; });
}

// As a part: the launch covers all points of all parts with blocks of one size, a
// thread takes one group, and with one axis the width does not depend on its size.
KernelVariant VariantOfPart(const PlannedKernel& kernel,
                            const std::vector<Buffer>& buffers) {
  KernelVariant variant = kernel.variant;
  auto* points = std::get_if<CudaPoints>(&variant);
  if (points == nullptr) return variant;
  points->unroll = 1;
  points->threads = kThreadsOfPart;
  points->blocks = 0;
  if (kernel.nest.axes.size() != 1) return variant;
  int64_t widest = 1;
  VisitStepBuffers(kernel.nest, [&](BufferId b, bool) {
    widest = std::max(widest, SizeInBytes(buffers[b].dtype));
  });
  points->vector =
      static_cast<int>(std::clamp<int64_t>(kAccessBytes / widest, 1, 8));
  points->peel = 0;
  return variant;
}

struct Group {
  int position = 0;  // of its first part, in the plan's steps
  std::vector<size_t> steps;
  std::vector<KernelVariant> variants;
  absl::flat_hash_set<std::string> bodies;
  int loops = 0;  // of all bodies
  absl::flat_hash_set<BufferId> buffers;
  size_t scalars = 0;
  int64_t held_bytes = 0;
};

// What is asked of one kernel before it joins.
struct Candidate {
  KernelVariant variant;
  std::string body;
  int loops = 0;
  std::vector<BufferId> buffers;
  size_t scalars = 0;           // arguments that are no buffers, at most
  int64_t temporary_bytes = 0;  // written
  int64_t output_bytes = 0;     // written for the first time
  int64_t dying_bytes = 0;      // of temporaries that are read
};

class Combiner {
 public:
  Combiner(KernelPlan& plan, const Target& target, const CombineLimits& limits)
      : plan_(plan), target_(target), limits_(limits) {}

  int Run() {
    FindReaders();
    ready_.resize(plan_.buffers.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const int after = WaitsFor(plan_.steps[s]);
      int position = static_cast<int>(s);
      const auto* kernel = std::get_if<PlannedKernel>(&plan_.steps[s]);
      if (kernel != nullptr && MayMove(*kernel)) {
        position = Join(MakeCandidate(*kernel), s, after);
      } else {
        last_fixed_ = position;
      }
      Note(plan_.steps[s], position);
    }
    return WriteBack();
  }

 private:
  // Where a buffer was touched last, by positions after moving.
  struct Touched {
    int written = kNowhere;
    int read = kNowhere;
  };

  void FindReaders() {
    last_read_.assign(plan_.buffers.size(), kNowhere);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      VisitStepBuffers(plan_.steps[s], [&](BufferId b, bool writes) {
        if (!writes) last_read_[b] = static_cast<int>(s);
      });
    }
  }

  int WaitsFor(const PlannedStep& step) const {
    int after = kNowhere;
    VisitStepBuffers(step, [&](BufferId b, bool writes) {
      after = std::max(after, ready_[b].written);
      if (writes) after = std::max(after, ready_[b].read);
    });
    return after;
  }

  void Note(const PlannedStep& step, int position) {
    VisitStepBuffers(step, [&](BufferId b, bool writes) {
      int& last = writes ? ready_[b].written : ready_[b].read;
      last = std::max(last, position);
    });
    ++step_;
  }

  bool IsSmall(const PlannedKernel& kernel) const {
    return plan_.shapes.Hint(PointCount(kernel.nest)) <= limits_.small_points;
  }

  bool MayMove(const PlannedKernel& kernel) const {
    if (!IsPlain(kernel)) return false;
    if (IsSmall(kernel)) return true;
    return std::all_of(kernel.nest.stores.begin(), kernel.nest.stores.end(),
                       [&](const Store& store) {
                         return last_read_[store.buffer] <= step_;
                       }) &&
           IsWorthItsMapping(kernel);
  }

  // Whether the mapping of a part costs less than the launch that it saves.
  bool IsWorthItsMapping(const PlannedKernel& kernel) const {
    const KernelVariant part = VariantOfPart(kernel, plan_.buffers);
    if (part == kernel.variant) return true;
    const absl::StatusOr<NestFacts> facts =
        FactsOf(kernel.nest, plan_.buffers, plan_.shapes);
    if (!facts.ok()) return false;
    const NestCosts costs(kernel.nest, *facts, plan_.buffers, plan_.shapes,
                          target_);
    return costs.PriceOf(part).ns - costs.PriceOf(kernel.variant).ns <
           kLaunchNs;
  }

  int64_t BytesOf(BufferId b) const {
    const Buffer& buffer = plan_.buffers[b];
    return plan_.shapes.Hint(Product(buffer.sizes)) * SizeInBytes(buffer.dtype);
  }

  Candidate MakeCandidate(const PlannedKernel& kernel) const {
    Candidate c;
    c.variant = VariantOfPart(kernel, plan_.buffers);
    const KernelFingerprint fingerprint(kernel.nest, plan_.buffers,
                                        FingerprintSizes::kFirstOpen);
    c.body = fingerprint.bytes() + ToText(c.variant);
    c.loops = kernel.nest.loops();
    c.buffers = fingerprint.buffers();
    absl::flat_hash_set<uint32_t> symbols;
    const auto look = [&](const SymExpr& e) {
      e.VisitVars([&](Var var) {
        if (var.kind == Var::Kind::kSymbol) symbols.insert(var.index);
      });
    };
    for (const Axis& axis : kernel.nest.axes) look(axis.extent);
    for (const ScalarNode& node : kernel.nest.body) {
      for (const SymExpr& e : node.index) look(e);
    }
    for (const Store& store : kernel.nest.stores) {
      for (const SymExpr& e : store.index) look(e);
    }
    VisitStepBuffers(kernel.nest, [&](BufferId b, bool writes) {
      const BufferKind kind = plan_.buffers[b].kind;
      if (kind == BufferKind::kTemporary) {
        (writes ? c.temporary_bytes : c.dying_bytes) += BytesOf(b);
      } else if (kind == BufferKind::kOutput && writes &&
                 ready_[b].written == kNowhere) {
        c.output_bytes += BytesOf(b);
      }
    });
    // And the first extent and the count of blocks, which follow from them.
    c.scalars = symbols.empty() ? 0 : symbols.size() + 2;
    return c;
  }

  // What is held longer when it joins `group`.
  int64_t HeldBytes(const Candidate& c, const Group& group) const {
    const bool outputs_too =
        last_fixed_ > group.position || c.dying_bytes > limits_.held_bytes;
    return c.temporary_bytes + (outputs_too ? c.output_bytes : 0);
  }

  bool Fits(const Candidate& c, const Group& group, int after) const {
    if (after >= group.position ||
        group.held_bytes + HeldBytes(c, group) > limits_.held_bytes) {
      return false;
    }
    size_t more = 0;
    for (const BufferId b : c.buffers) more += !group.buffers.contains(b);
    return group.buffers.size() + more + group.scalars + c.scalars <=
           limits_.arguments;
  }

  // Where the kernel of step `s` runs from now on.
  int Join(Candidate c, size_t s, int after) {
    Group* into = nullptr;
    for (const bool equal : {true, false}) {
      for (const size_t g : open_) {
        Group& group = groups_[g];
        if (into != nullptr || group.bodies.contains(c.body) != equal) continue;
        if (!equal && (group.bodies.size() >= limits_.bodies ||
                       group.loops + c.loops > limits_.loops)) {
          continue;
        }
        if (Fits(c, group, after)) into = &group;
      }
    }
    if (into == nullptr) {
      if (c.temporary_bytes > limits_.held_bytes ||
          c.buffers.size() + c.scalars > limits_.arguments) {
        return static_cast<int>(s);
      }
      if (open_.size() == kOpenGroups) open_.erase(open_.begin());
      open_.push_back(groups_.size());
      into = &groups_.emplace_back();
      into->position = static_cast<int>(s);
    }
    if (into->bodies.insert(std::move(c.body)).second) into->loops += c.loops;
    into->buffers.insert(c.buffers.begin(), c.buffers.end());
    into->scalars += c.scalars;
    // The first part does not move; counted all the same, to be on the safe side.
    into->held_bytes +=
        into->steps.empty() ? c.temporary_bytes : HeldBytes(c, *into);
    into->variants.push_back(c.variant);
    into->steps.push_back(s);
    return into->position;
  }

  int WriteBack() {
    int combined = 0;
    std::vector<bool> gone(plan_.steps.size(), false);
    for (const Group& group : groups_) {
      if (group.steps.size() < 2) continue;
      CombinedKernel all;
      for (size_t p = 0; p < group.steps.size(); ++p) {
        PlannedStep& step = plan_.steps[group.steps[p]];
        all.parts.push_back(std::move(std::get<PlannedKernel>(step)));
        all.parts.back().label.clear();
        all.parts.back().variant = group.variants[p];
        gone[group.steps[p]] = p > 0;
      }
      combined += static_cast<int>(all.parts.size());
      plan_.steps[group.steps[0]] = std::move(all);
    }
    std::vector<PlannedStep> steps;
    for (size_t s = 0; s < gone.size(); ++s) {
      if (!gone[s]) steps.push_back(std::move(plan_.steps[s]));
    }
    plan_.steps = std::move(steps);
    return combined;
  }

  KernelPlan& plan_;
  const Target& target_;
  const CombineLimits& limits_;
  int step_ = 0;               // that is looked at
  int last_fixed_ = kNowhere;  // step that no part is made of
  std::vector<int> last_read_;
  std::vector<Touched> ready_;
  std::vector<Group> groups_;
  std::vector<size_t> open_;
};

}  // namespace

int CombineNests(KernelPlan& plan, const Target& target,
                 const CombineLimits& limits) {
  return Combiner(plan, target, limits).Run();
}

}  // namespace kiln

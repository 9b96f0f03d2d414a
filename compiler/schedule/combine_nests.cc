#include "compiler/schedule/combine_nests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/cost_model.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/hint_bytes.h"
#include "compiler/schedule/kernel_fingerprint.h"

namespace kiln {

namespace {

// Only the latest groups may still be joined, so that a plan of a thousand different
// small kernels takes linear time.
constexpr size_t kOpenGroups = 16;
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

// The variant of `kernel` as a part of a combined kernel. All parts have blocks of one
// size, and a thread takes one group. With one axis the vector's width does not depend
// on the axis's size.
KernelVariant VariantOfPart(const PlannedKernel& kernel,
                            const std::vector<Buffer>& buffers) {
  KernelVariant variant = kernel.variant;
  auto* points = std::get_if<CudaPoints>(&variant);
  if (points == nullptr) return variant;
  points->unroll = 1;
  points->threads = kThreadsOfPart;
  points->blocks = 0;
  points->alone = 0;
  if (kernel.nest.axes.size() != 1) return variant;
  int64_t widest = 1;
  VisitStepBuffers(kernel.nest, [&](BufferId b, bool) {
    widest = std::max(widest, SizeInBytes(buffers[b].dtype));
  });
  points->vector =
      static_cast<int>(std::clamp<int64_t>(kMaxAccessBytes / widest, 1, 8));
  points->peel = 0;
  points->whole = points->vector > 1 ? kMostWritten : 0;
  return variant;
}

struct Group {
  int position = 0;      // in the plan's steps
  bool may_sink = true;  // whether it may move to a later step
  std::vector<size_t> steps;
  std::vector<KernelVariant> variants;
  absl::flat_hash_set<std::string> bodies;
  int loops = 0;  // of all different bodies
  absl::flat_hash_set<BufferId> buffers;
  size_t scalars = 0;
};

// A kernel that may join a group.
struct Candidate {
  KernelVariant variant;
  std::string body;
  int loops = 0;
  std::vector<BufferId> buffers;
  size_t scalars = 0;  // upper bound of the arguments that are not buffers
  bool may_rise = false, may_sink = false;
};

class Combiner {
 public:
  Combiner(KernelPlan& plan, const Target& target, const CombineLimits& limits)
      : plan_(plan), target_(target), limits_(limits) {}

  int Run() {
    FindUses();
    ready_.resize(plan_.buffers.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const int after = WaitsFor(plan_.steps[s]);
      int position = static_cast<int>(s);
      const auto* kernel = std::get_if<PlannedKernel>(&plan_.steps[s]);
      if (kernel != nullptr && IsPlain(*kernel)) {
        Candidate c = MakeCandidate(*kernel);
        if (c.may_rise || c.may_sink) position = Join(std::move(c), s, after);
      }
      RecordAccesses(plan_.steps[s], position);
    }
    return WriteBack();
  }

 private:
  // The positions, after moves, of a buffer's last write and last read.
  struct Touched {
    int written = kNowhere;
    int read = kNowhere;
  };

  // The uses of a buffer, as steps of the original plan.
  struct Uses {
    int writers = 0;
    int first_write = kNowhere, last_write = kNowhere;
    int last_read = kNowhere;
    int before_last = kNowhere;  // the use before the last
  };

  // Visits each buffer that a step reads once, and each that it writes once.
  template <typename Visit>
  static void VisitOnce(const PlannedStep& step, Visit visit) {
    absl::InlinedVector<std::pair<BufferId, bool>, 16> all;
    VisitStepBuffers(
        step, [&](BufferId b, bool writes) { all.emplace_back(b, writes); });
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const auto& [b, writes] : all) visit(b, writes);
  }

  void FindUses() {
    uses_.resize(plan_.buffers.size());
    const int steps = static_cast<int>(plan_.steps.size());
    for (int s = 0; s < steps; ++s) {
      VisitOnce(plan_.steps[s], [&](BufferId b, bool writes) {
        Uses& uses = uses_[b];
        if (LastUse(b) != s) uses.before_last = LastUse(b);
        if (!writes) {
          uses.last_read = s;
          return;
        }
        ++uses.writers;
        if (uses.first_write == kNowhere) uses.first_write = s;
        uses.last_write = s;
      });
    }
    live_bytes_.assign(steps + 1, 0);
    for (BufferId b = 0; b < plan_.buffers.size(); ++b) {
      if (!IsOfPlan(b) || uses_[b].first_write == kNowhere) continue;
      const int last = IsOutput(b) ? steps : LastUse(b);
      live_bytes_[uses_[b].first_write] += BytesOf(b);
      if (last < steps) live_bytes_[last + 1] -= BytesOf(b);
    }
    for (int s = 1; s <= steps; ++s) live_bytes_[s] += live_bytes_[s - 1];
    most_live_bytes_ =
        *std::max_element(live_bytes_.begin(), live_bytes_.end()) +
        limits_.more_peak_bytes;
  }

  bool IsOutput(BufferId b) const {
    return plan_.buffers[b].kind == BufferKind::kOutput;
  }
  // Whether the plan allocates the buffer.
  bool IsOfPlan(BufferId b) const {
    return IsOutput(b) || plan_.buffers[b].kind == BufferKind::kTemporary;
  }
  int LastUse(BufferId b) const {
    return std::max(uses_[b].last_write, uses_[b].last_read);
  }

  int WaitsFor(const PlannedStep& step) const {
    int after = kNowhere;
    VisitStepBuffers(step, [&](BufferId b, bool writes) {
      after = std::max(after, ready_[b].written);
      if (writes) after = std::max(after, ready_[b].read);
    });
    return after;
  }

  void RecordAccesses(const PlannedStep& step, int position) {
    VisitStepBuffers(step, [&](BufferId b, bool writes) {
      int& last = writes ? ready_[b].written : ready_[b].read;
      last = std::max(last, position);
    });
    ++step_;
  }

  bool IsSmall(const PlannedKernel& kernel) const {
    return plan_.shapes.Hint(PointCount(kernel.nest)) <= limits_.small_points;
  }

  // Decides whether the kernel of step_ may run earlier or later without losing more
  // time than a launch takes.
  void JudgeMoves(const PlannedKernel& kernel, Candidate& c) const {
    // Bytes that later steps, or the kernel itself, would no longer find in the cache.
    int64_t read_later = 0, read_by_it = 0;
    bool read = false, changes = false;
    VisitOnce(plan_.steps[step_], [&](BufferId b, bool writes) {
      const Uses& uses = uses_[b];
      if (writes) {
        const bool has_reader = uses.last_read > step_;
        if (has_reader) read_later += BytesOf(b);
        read = read || has_reader;
        changes = changes || uses.writers > 1 || !IsOutput(b) ||
                  uses.last_read != kNowhere;
      } else {
        if (IsOfPlan(b)) read_by_it += BytesOf(b);
        changes = changes || uses.last_write > step_;
      }
    });
    c.may_sink = !changes;
    c.may_rise = true;
    if (IsSmall(kernel)) return;
    const bool gpu = target_.kind == TargetKind::kCuda;
    const double less = kLaunchNs - MappingNs(kernel, c.variant);
    const auto is_worth = [&](int64_t bytes) {
      return double(bytes) / target_.memory_bytes_per_ns < less;
    };
    c.may_rise = gpu ? is_worth(read_later) : !read && is_worth(0);
    c.may_sink = c.may_sink && gpu && is_worth(read_by_it);
  }

  // How much longer the kernel takes when it is mapped as a part.
  double MappingNs(const PlannedKernel& kernel,
                   const KernelVariant& part) const {
    if (part == kernel.variant) return 0;
    const absl::StatusOr<NestFacts> facts =
        FactsOf(kernel.nest, plan_.buffers, plan_.shapes);
    if (!facts.ok()) return kLaunchNs;
    const NestCosts costs(kernel.nest, *facts, plan_.buffers, plan_.shapes,
                          target_);
    return costs.PriceOf(part).ns - costs.PriceOf(kernel.variant).ns;
  }

  int64_t BytesOf(BufferId b) const {
    return HintBytes(plan_.buffers[b], plan_.shapes);
  }

  Candidate MakeCandidate(const PlannedKernel& kernel) const {
    Candidate c;
    c.variant = VariantOfPart(kernel, plan_.buffers);
    const KernelFingerprint fingerprint(kernel.nest, plan_.buffers,
                                        FingerprintSizes::kFirstOpen);
    c.body = absl::StrCat(fingerprint.bytes(), ToText(c.variant));
    c.loops = kernel.nest.loops();
    c.buffers = fingerprint.buffers();
    absl::flat_hash_set<uint32_t> symbols;
    const auto add_symbols = [&](const SymExpr& e) {
      e.VisitVars([&](Var var) {
        if (var.kind == Var::Kind::kSymbol) symbols.insert(var.index);
      });
    };
    for (const Axis& axis : kernel.nest.axes) add_symbols(axis.extent);
    for (const ScalarNode& node : kernel.nest.body) {
      for (const SymExpr& e : node.index) add_symbols(e);
    }
    for (const Store& store : kernel.nest.stores) {
      for (const SymExpr& e : store.index) add_symbols(e);
    }
    // Two more: the first extent and the number of blocks depend on the symbols.
    c.scalars = symbols.empty() ? 0 : symbols.size() + 2;
    JudgeMoves(kernel, c);
    return c;
  }

  // Updates the live bytes of each step for a move of step `s` to `to`, or undoes that
  // if `sign` is -1. Returns the largest number of live bytes between the two.
  int64_t MoveMemory(int s, int to, int sign) {
    const auto add = [&](int first, int end, int64_t bytes) {
      for (int t = first; t < end; ++t) live_bytes_[t] += sign * bytes;
    };
    VisitOnce(plan_.steps[s], [&](BufferId b, bool writes) {
      if (!IsOfPlan(b)) return;
      const Uses& uses = uses_[b];
      if (writes) {
        if (to < s) add(to, std::min(s, uses.first_write), BytesOf(b));
        if (to > s) add(s, to, -BytesOf(b));  // its only writer
      } else if (!IsOutput(b)) {
        const int last = LastUse(b);
        if (to < s && last == s)
          add(std::max(to, uses.before_last) + 1, s + 1, -BytesOf(b));
        if (to > s) add(last + 1, to + 1, BytesOf(b));
      }
    });
    return *std::max_element(live_bytes_.begin() + std::min(s, to),
                             live_bytes_.begin() + std::max(s, to) + 1);
  }

  // Moves the memory of step `s` to position `to`, unless that exceeds the limit.
  // Returns whether it moved.
  bool TakeMemory(int s, int to) {
    if (MoveMemory(s, to, 1) <= most_live_bytes_) return true;
    MoveMemory(s, to, -1);
    return false;
  }

  bool HasRoom(const Candidate& c, const Group& group) const {
    size_t more = 0;
    for (const BufferId b : c.buffers) more += !group.buffers.contains(b);
    return group.buffers.size() + more + group.scalars + c.scalars <=
           limits_.arguments;
  }

  // Moves step `s` up to the group, or the group down to the step. Returns whether
  // either is possible.
  bool Meet(const Candidate& c, int s, int after, Group& group) {
    if (c.may_rise && after < group.position)
      return TakeMemory(s, group.position);
    if (!c.may_sink || !group.may_sink) return false;
    // If a part cannot move, the parts that were moved before it are moved back.
    for (size_t p = 0; p < group.steps.size(); ++p) {
      const int part = static_cast<int>(group.steps[p]);
      MoveMemory(part, group.position, -1);
      if (TakeMemory(part, s)) continue;
      MoveMemory(part, group.position, 1);
      while (p-- > 0) {
        const int before = static_cast<int>(group.steps[p]);
        MoveMemory(before, s, -1);
        MoveMemory(before, group.position, 1);
      }
      return false;
    }
    group.position = s;
    return true;
  }

  Group* GroupFor(const Candidate& c, int s, int after) {
    for (const bool equal : {true, false}) {
      for (const size_t g : open_) {
        Group& group = groups_[g];
        if (group.bodies.contains(c.body) != equal) continue;
        if (!equal && (group.bodies.size() >= limits_.bodies ||
                       group.loops + c.loops > limits_.loops)) {
          continue;
        }
        if (HasRoom(c, group) && Meet(c, s, after, group)) return &group;
      }
    }
    return nullptr;
  }

  // Lets the kernel of step `s` join a group, or start one. Returns its new position.
  int Join(Candidate c, size_t s, int after) {
    const int here = static_cast<int>(s);
    Group* into = GroupFor(c, here, after);
    if (into == nullptr) {
      if (c.buffers.size() + c.scalars > limits_.arguments) return here;
      if (open_.size() == kOpenGroups) open_.erase(open_.begin());
      open_.push_back(groups_.size());
      into = &groups_.emplace_back();
      into->position = here;
    }
    if (into->bodies.insert(std::move(c.body)).second) into->loops += c.loops;
    into->buffers.insert(c.buffers.begin(), c.buffers.end());
    into->scalars += c.scalars;
    into->may_sink = into->may_sink && c.may_sink;
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
        gone[group.steps[p]] = true;
      }
      combined += static_cast<int>(all.parts.size());
      gone[group.position] = false;
      plan_.steps[group.position] = std::move(all);
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
  int step_ = 0;  // the current step
  std::vector<Uses> uses_;
  std::vector<int64_t> live_bytes_;  // at each step, after the moves so far
  int64_t most_live_bytes_ = 0;
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

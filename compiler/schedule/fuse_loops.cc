#include "compiler/schedule/fuse_loops.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/loop/body_builder.h"
#include "compiler/schedule/fuser.h"
#include "compiler/schedule/kernel_fingerprint.h"

namespace kiln {

namespace {

// At least this many nests with equal bodies are left to combine_nests.h. Fewer usually
// belong to the layers of a model, where combine_nests.h often cannot move them.
constexpr size_t kManyAlike = 8;

// An input that two nests read counts from this size on. A smaller one stays in caches.
constexpr int64_t kLeastShared = 1 << 12;  // bytes

}  // namespace

void Fuser::MakeGroups() {
  for (size_t b = 0; b < private_.size(); ++b) {
    private_[b] = !IsKept(program_.buffers[b]);
  }
  groups_.resize(program_.steps.size());
  for (uint32_t s = 0; s < program_.steps.size(); ++s) {
    LoopStep& step = program_.steps[s];
    VisitStepBuffers(step, [&](BufferId b, bool) {
      if (users_[b].empty() || users_[b].back() != s) users_[b].push_back(s);
      if (!std::holds_alternative<LoopNest>(step)) private_[b] = false;
    });
    if (auto* nest = std::get_if<LoopNest>(&step)) {
      groups_[s].fusable = true;
      const int nests = nest->loops();
      groups_[s].unit = MakeFusionUnit(std::move(*nest), nests,
                                       program_.buffers, program_.shapes);
    }
  }
  MeasureTemporaries();
}

int64_t Fuser::Score(const FusionGroup& a, const FusionGroup& b) const {
  int64_t score = 0;
  BufferId counted = ~0u;
  for (const NestAccess& x : a.unit.accesses) {
    if (x.buffer == counted) continue;
    for (const NestAccess& y : b.unit.accesses) {
      if (x.buffer != y.buffer) continue;
      const bool passes = x.store || y.store;
      const bool vanishes =
          passes && private_[x.buffer] && users_[x.buffer].size() == 2;
      if (passes || x.bytes >= kLeastShared)
        score += vanishes ? 2 * x.bytes : x.bytes;
      counted = x.buffer;
      break;
    }
  }
  return score;
}

std::vector<uint32_t> Fuser::NeighboursOf(uint32_t g, bool forward) const {
  std::vector<uint32_t> others;
  BufferId last = ~0u;
  for (const NestAccess& access : groups_[g].unit.accesses) {
    if (access.buffer == last) continue;
    last = access.buffer;
    const std::vector<uint32_t>& users = users_[access.buffer];
    const auto at = std::lower_bound(users.begin(), users.end(), g);
    const size_t here = static_cast<size_t>(at - users.begin());
    for (size_t k = here + 1; k < users.size() && k <= here + kNeighbours;
         ++k) {
      others.push_back(users[k]);
    }
    if (forward) continue;
    for (size_t k = here; k > 0 && k + kNeighbours > here; --k) {
      others.push_back(users[k - 1]);
    }
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  return others;
}

void Fuser::QueuePairs(uint32_t g, bool forward) {
  for (const uint32_t other : NeighboursOf(g, forward)) {
    if (!groups_[other].fusable || other == g) continue;
    const uint32_t a = std::min(g, other), b = std::max(g, other);
    const int64_t score = Score(groups_[a], groups_[b]);
    if (score == 0) continue;
    queue_.push({score, a, b, groups_[a].version, groups_[b].version});
  }
}

double Fuser::PriceOf(FusionGroup& group) {
  if (group.price_ns < 0) group.price_ns = pricer_.PriceOf(group.unit.nest);
  return group.price_ns;
}

bool Fuser::Saves(double together_ns, FusionGroup& first, FusionGroup& second,
                  FusionVerdict& verdict) {
  // Often the launches, or one of the two, cost as much already. A price takes long.
  const auto saves = [&](double apart_ns) {
    return together_ns + kLeastSavedNs <= apart_ns;
  };
  const double known_ns = std::max(first.price_ns, second.price_ns);
  if (saves(2 * kLaunchNs) || saves(known_ns + kLaunchNs) ||
      saves(PriceOf(first) + kLaunchNs)) {
    return true;
  }
  const double apart_ns = PriceOf(first) + PriceOf(second);
  if (saves(apart_ns)) return true;
  verdict.because = ApartBecause::kSavesTooLittle;
  verdict.detail = absl::StrFormat("%.2f us against %.2f", together_ns / 1e3,
                                   apart_ns / 1e3);
  return false;
}

bool Fuser::TryMerge(uint32_t a, uint32_t b) {
  // `a` is the one that must run first.
  if (dependencies_.Before(b, a)) std::swap(a, b);
  FusionUnit& first = groups_[a].unit;
  FusionUnit& second = groups_[b].unit;
  FusionVerdict verdict = JudgeFusion(first, second, program_.buffers,
                                      program_.shapes, options_.limits);
  if (verdict.fuse() && dependencies_.SomethingBetween(a, b)) {
    verdict.because = ApartBecause::kCycle;
  }
  LoopNest merged;
  if (verdict.fuse()) {
    merged = MergeNests(first, second, verdict.alignment, program_.shapes);
    if (Saves(pricer_.PriceOf(merged), groups_[a], groups_[b], verdict))
      HoldsTooMuch(a, b, verdict);
  }
  if (!verdict.fuse()) {
    NoteApart(first, second, verdict);
    return false;
  }
  const int nests = first.nests + second.nests;
  TakeMerged(a, b, std::move(merged), nests);
  return true;
}

void Fuser::NoteApart(const FusionUnit& first, const FusionUnit& second,
                      const FusionVerdict& verdict) {
  if (!options_.explain) return;
  report_.apart.push_back({absl::StrJoin(first.nest.origins, "+"),
                           absl::StrJoin(second.nest.origins, "+"),
                           verdict.because, verdict.detail});
}

void Fuser::Leave(uint32_t g) {
  for (const NestAccess& access : groups_[g].unit.accesses) {
    std::vector<uint32_t>& users = users_[access.buffer];
    const auto at = std::lower_bound(users.begin(), users.end(), g);
    if (at != users.end() && *at == g) users.erase(at);
  }
}

void Fuser::Enter(uint32_t g) {
  for (const NestAccess& access : groups_[g].unit.accesses) {
    std::vector<uint32_t>& users = users_[access.buffer];
    const auto at = std::lower_bound(users.begin(), users.end(), g);
    if (at == users.end() || *at != g) users.insert(at, g);
  }
}

// Removes stores to temporaries that no other group reads.
void Fuser::DropUnread(LoopNest& nest) const {
  nest.stores.erase(std::remove_if(nest.stores.begin(), nest.stores.end(),
                                   [&](const Store& store) {
                                     return private_[store.buffer] &&
                                            users_[store.buffer].empty();
                                   }),
                    nest.stores.end());
  DropDeadNodes(nest);
}

// Replaces both groups by the merged nest.
void Fuser::TakeMerged(uint32_t a, uint32_t b, LoopNest merged, int nests) {
  const uint32_t into = std::min(a, b), gone = std::max(a, b);
  Leave(a);
  Leave(b);
  DropUnread(merged);
  dependencies_.Merge(into, gone);
  groups_[gone].fusable = false;
  ++groups_[gone].version;
  ++groups_[into].version;
  groups_[into].price_ns = -1;
  groups_[into].unit = MakeFusionUnit(std::move(merged), nests,
                                      program_.buffers, program_.shapes);
  Enter(into);
  ++report_.merges;
}

void Fuser::FuseSharers() {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].fusable) QueuePairs(g, /*forward=*/true);
  }
  while (!queue_.empty()) {
    const FusionCandidate c = queue_.top();
    queue_.pop();
    if (groups_[c.a].version != c.version_a ||
        groups_[c.b].version != c.version_b || !groups_[c.a].fusable ||
        !groups_[c.b].fusable) {
      continue;
    }
    if (TryMerge(c.a, c.b)) QueuePairs(c.a, /*forward=*/false);
  }
}

// For each group a number that is equal for groups with equal bodies, whatever their
// buffers, as for the parameters of an optimizer. 0 if few groups have that body.
std::vector<uint32_t> Fuser::ManyAlike() const {
  absl::flat_hash_map<std::string, std::vector<uint32_t>> alike;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const FusionUnit& unit = groups_[g].unit;
    if (!groups_[g].fusable || unit.reduces || unit.atomic ||
        unit.outer_points > kLaunchBoundPoints) {
      continue;
    }
    alike[KernelFingerprint(unit.nest, program_.buffers,
                            FingerprintSizes::kFirstOpen)
              .bytes()]
        .push_back(g);
  }
  std::vector<uint32_t> kinds(groups_.size(), 0);
  for (const auto& [body, members] : alike) {
    if (members.size() < kManyAlike) continue;
    for (const uint32_t g : members) kinds[g] = members[0] + 1;
  }
  return kinds;
}

// Fuses launch-bound kernels over equal spaces, even if they share no buffer. Does not
// pair kernels of which there are many with equal bodies: combine_nests.h gives those one
// launch with one body, while a fused nest would do their work one after the other.
void Fuser::FuseSmall() {
  const std::vector<uint32_t> kinds = ManyAlike();
  std::map<std::pair<int64_t, int64_t>, std::vector<uint32_t>> by_space;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const FusionGroup& group = groups_[g];
    if (!group.fusable || group.unit.scans) continue;
    if (group.unit.outer_points * group.unit.reduced_points >
        kLaunchBoundPoints) {
      continue;
    }
    by_space[{group.unit.outer_points, group.unit.reduced_points}].push_back(g);
  }
  for (auto& [space, members] : by_space) {
    for (size_t i = 0; i < members.size(); ++i) {
      for (size_t k = i + 1; k < members.size() && k <= i + kNeighbours;) {
        const uint32_t kind = kinds[members[i]];
        const bool alike = kind != 0 && kind == kinds[members[k]];
        if (!alike && TryMerge(members[i], members[k])) {
          members.erase(members.begin() + static_cast<std::ptrdiff_t>(k));
        } else {
          ++k;
        }
      }
    }
  }
}

void Fuser::WriteBack() {
  std::vector<LoopStep> steps;
  steps.reserve(groups_.size());
  for (const uint32_t g : dependencies_.Order()) {
    if (groups_[g].fusable) {
      steps.push_back(std::move(groups_[g].unit.nest));
    } else {
      steps.push_back(std::move(program_.steps[g]));
    }
  }
  program_.steps = std::move(steps);
}

FusionReport Fuser::Run() {
  MakeGroups();
  FuseSharers();
  FuseColumnSums();
  FuseSmall();
  WriteBack();
  return std::move(report_);
}

FusionReport FuseLoops(LoopProgram& program, const Target& target,
                       const FusionOptions& options) {
  DropDeadStores(program);
  return Fuser(program, target, options).Run();
}

void DropDeadStores(LoopProgram& program) {
  std::vector<bool> needed(program.buffers.size(), false);
  for (size_t b = 0; b < needed.size(); ++b) {
    needed[b] = IsKept(program.buffers[b]);
  }
  for (const ProgramOutput& output : program.outputs) {
    if (const auto* view = std::get_if<View>(&output.what)) {
      needed[view->buffer] = true;
    }
  }
  // In place and from the last step on: steps are large, and nearly all of them stay.
  std::vector<LoopStep>& steps = program.steps;
  size_t first_kept = steps.size();
  for (size_t s = steps.size(); s-- > 0;) {
    LoopStep& step = steps[s];
    if (auto* nest = std::get_if<LoopNest>(&step)) {
      const size_t before = nest->stores.size();
      nest->stores.erase(
          std::remove_if(
              nest->stores.begin(), nest->stores.end(),
              [&](const Store& store) { return !needed[store.buffer]; }),
          nest->stores.end());
      if (nest->stores.empty()) continue;
      if (nest->stores.size() != before) DropDeadNodes(*nest);
    } else if (const auto* fill = std::get_if<Fill>(&step)) {
      if (!needed[fill->buffer]) continue;
    }
    VisitStepBuffers(step, [&](BufferId b, bool) { needed[b] = true; });
    if (--first_kept != s) steps[first_kept] = std::move(step);
  }
  steps.erase(steps.begin(),
              steps.begin() + static_cast<std::ptrdiff_t>(first_kept));
}

}  // namespace kiln

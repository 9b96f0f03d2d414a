// The part of Fuser that judges whether a merge keeps large temporaries in memory for
// longer.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/fuser.h"
#include "compiler/schedule/hint_bytes.h"

namespace kiln {
namespace {

// A merge that holds a byte for longer must save this many bytes of memory traffic.
constexpr int64_t kTrafficPerHeldByte = 4;

}  // namespace

void Fuser::MeasureTemporaries() {
  temporary_bytes_.assign(program_.buffers.size(), 0);
  int64_t all = 0;
  for (size_t b = 0; b < temporary_bytes_.size(); ++b) {
    const Buffer& buffer = program_.buffers[b];
    if (buffer.kind != BufferKind::kTemporary || users_[b].empty()) continue;
    temporary_bytes_[b] = HintBytes(buffer, program_.shapes);
    all += temporary_bytes_[b];
  }
  if (all < 2 * kLeastHeldBytes) temporary_bytes_.clear();
}

int64_t Fuser::TemporaryBytes(BufferId b) const {
  return b < temporary_bytes_.size() ? temporary_bytes_[b] : 0;
}

std::pair<uint32_t, uint32_t> Fuser::LifeOf(BufferId b) const {
  uint32_t from = ~0u, to = 0;
  for (const uint32_t g : users_[b]) {
    from = std::min(from, dependencies_.LastStep(g));
    to = std::max(to, dependencies_.LastStep(g));
  }
  return {from, to};
}

void Fuser::AddTemporariesOf(uint32_t g, std::vector<BufferId>& buffers) const {
  const auto add = [&](BufferId b, bool) {
    if (TemporaryBytes(b) > 0) buffers.push_back(b);
  };
  if (groups_[g].fusable) {
    VisitStepBuffers(groups_[g].unit.nest, add);
  } else {
    VisitStepBuffers(program_.steps[g], add);
  }
}

// The merged kernel runs at the position of the later group. Until then the inputs of
// the earlier group must stay in memory, together with the results of groups in between
// that the later group reads. Groups that depend on the earlier one run after both.
int64_t Fuser::HeldBytes(uint32_t a, uint32_t b) const {
  if (temporary_bytes_.empty()) return 0;
  uint32_t begin = dependencies_.LastStep(a), end = dependencies_.LastStep(b);
  if (begin > end) {
    std::swap(a, b);
    std::swap(begin, end);
  }
  if (begin + 1 == end) return 0;
  // The temporaries of the earlier group and of those that depend on it; and of the
  // later group and of those that it depends on.
  std::vector<BufferId> waiting, made;
  AddTemporariesOf(a, waiting);
  AddTemporariesOf(b, made);
  for (uint32_t g = 0; g < end; ++g) {
    if (!dependencies_.IsGroup(g) || dependencies_.LastStep(g) <= begin ||
        dependencies_.LastStep(g) >= end) {
      continue;
    }
    if (dependencies_.Before(a, g)) AddTemporariesOf(g, waiting);
    if (dependencies_.Before(g, b)) AddTemporariesOf(g, made);
  }
  for (std::vector<BufferId>* buffers : {&waiting, &made}) {
    std::sort(buffers->begin(), buffers->end());
    buffers->erase(std::unique(buffers->begin(), buffers->end()),
                   buffers->end());
  }
  int64_t held = 0, needed = 0;
  for (const BufferId buffer : waiting) {
    const auto [from, to] = LifeOf(buffer);
    if (from < begin && to < end) held += TemporaryBytes(buffer);
    if (from == begin && to >= end) held -= TemporaryBytes(buffer);
  }
  for (const BufferId buffer : made) {
    const auto [from, to] = LifeOf(buffer);
    if (from > begin && to >= end) needed += TemporaryBytes(buffer);
  }
  return std::min(held, needed);
}

bool Fuser::HoldsTooMuch(uint32_t a, uint32_t b, FusionVerdict& verdict) const {
  const int64_t bytes = HeldBytes(a, b);
  if (bytes < kLeastHeldBytes ||
      bytes * kTrafficPerHeldByte <= Score(groups_[a], groups_[b])) {
    return false;
  }
  verdict.because = ApartBecause::kHoldsMemory;
  verdict.detail = absl::StrCat(bytes, " bytes");
  return true;
}

}  // namespace kiln

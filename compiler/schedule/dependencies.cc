#include "compiler/schedule/dependencies.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace kiln {

Dependencies::Dependencies(const std::vector<LoopStep>& steps, size_t buffers) {
  const size_t n = steps.size();
  ancestors_.assign(n, Set((n + 63) / 64, 0));
  direct_.resize(n);
  group_of_.resize(n);
  last_step_.resize(n);
  std::vector<std::vector<uint32_t>> writers(buffers), readers(buffers);
  for (uint32_t s = 0; s < n; ++s) {
    group_of_[s] = s;
    last_step_[s] = s;
    std::vector<uint32_t>& before = direct_[s];
    VisitStepBuffers(steps[s], [&](BufferId b, bool writes) {
      before.insert(before.end(), writers[b].begin(), writers[b].end());
      if (writes) {
        before.insert(before.end(), readers[b].begin(), readers[b].end());
      }
    });
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const uint32_t p : before) {
      Inherit(s, ancestors_[p]);
      Add(p, ancestors_[s]);
    }
    VisitStepBuffers(steps[s], [&](BufferId b, bool writes) {
      (writes ? writers : readers)[b].push_back(s);
    });
  }
}

bool Dependencies::SomethingBetween(uint32_t a, uint32_t b) const {
  for (const auto& [low, high] : {std::pair(a, b), std::pair(b, a)}) {
    for (const uint32_t step : direct_[high]) {
      const uint32_t middle = group_of_[step];
      if (middle != low && middle != high && Before(low, middle)) return true;
    }
  }
  return false;
}

void Dependencies::Merge(uint32_t a, uint32_t b) {
  Inherit(a, ancestors_[b]);
  Set& merged = ancestors_[a];
  Remove(a, merged);
  Remove(b, merged);
  Set up_to_a = merged;
  Add(a, up_to_a);
  const size_t word_a = a / 64, word_b = b / 64;
  const uint64_t bit_a = uint64_t{1} << (a % 64),
                 bit_b = uint64_t{1} << (b % 64);
  for (uint32_t g = 0; g < ancestors_.size(); ++g) {
    // What runs before a group that is part of another is never asked for.
    if (group_of_[g] != g || g == a) continue;
    const Set& set = ancestors_[g];
    if (((set[word_a] & bit_a) | (set[word_b] & bit_b)) != 0)
      Inherit(g, up_to_a);
  }
  direct_[a].insert(direct_[a].end(), direct_[b].begin(), direct_[b].end());
  for (uint32_t& group : group_of_) {
    if (group == b) group = a;
  }
  last_step_[a] = std::max(last_step_[a], last_step_[b]);
}

void Dependencies::Inherit(uint32_t g, const Set& more) {
  Set& set = ancestors_[g];
  for (size_t w = 0; w < set.size(); ++w) set[w] |= more[w];
}

void Dependencies::Precede(uint32_t a, uint32_t b) {
  for (const uint32_t step : direct_[b]) {
    if (group_of_[step] != a && group_of_[step] != b)
      direct_[a].push_back(step);
  }
  direct_[b].push_back(a);
  Inherit(a, ancestors_[b]);
  Remove(a, ancestors_[a]);  // it may have run before b already
  Set up_to_a = ancestors_[a];
  Add(a, up_to_a);
  for (uint32_t g = 0; g < ancestors_.size(); ++g) {
    if (g == b || (g != a && (Before(a, g) || Before(b, g))))
      Inherit(g, up_to_a);
  }
}

std::vector<uint32_t> Dependencies::Order() const {
  const size_t n = group_of_.size();
  std::vector<std::vector<uint32_t>> after(n);
  std::vector<int> waiting(n, 0);
  for (uint32_t g = 0; g < n; ++g) {
    if (group_of_[g] != g) continue;
    std::vector<uint32_t> before;
    for (const uint32_t step : direct_[g]) {
      if (group_of_[step] != g) before.push_back(group_of_[step]);
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const uint32_t p : before) after[p].push_back(g);
    waiting[g] = static_cast<int>(before.size());
  }
  using Entry = std::pair<uint32_t, uint32_t>;  // last step, group
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t g = 0; g < n; ++g) {
    if (group_of_[g] == g && waiting[g] == 0) ready.push({last_step_[g], g});
  }
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const uint32_t g = ready.top().second;
    ready.pop();
    order.push_back(g);
    for (const uint32_t next : after[g]) {
      if (--waiting[next] == 0) ready.push({last_step_[next], next});
    }
  }
  return order;
}

}  // namespace kiln

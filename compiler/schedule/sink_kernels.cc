#include "compiler/schedule/sink_kernels.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/hint_bytes.h"

namespace kiln {
namespace {

constexpr int64_t kLeastSavedBytes = int64_t{1} << 20;

// The buffers that a step touches, each once, in order.
struct Touched {
  std::vector<BufferId> reads, writes;
};

void MakeUnique(std::vector<BufferId>& buffers) {
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
}

bool Has(const std::vector<BufferId>& buffers, BufferId b) {
  return std::binary_search(buffers.begin(), buffers.end(), b);
}

bool HaveCommon(const std::vector<BufferId>& a,
                const std::vector<BufferId>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](BufferId buffer) { return Has(b, buffer); });
}

class Sinker {
 public:
  explicit Sinker(KernelPlan& plan)
      : plan_(plan), writers_(plan.buffers.size()) {
    for (const PlannedStep& step : plan.steps) {
      Touched& touched = touched_.emplace_back();
      VisitStepBuffers(step, [&](BufferId b, bool writes) {
        (writes ? touched.writes : touched.reads).push_back(b);
      });
      MakeUnique(touched.reads);
      MakeUnique(touched.writes);
      for (const BufferId b : touched.writes) ++writers_[b];
    }
  }

  // From the last step on, so that a chain of kernels moves as a whole.
  int Run() {
    int moved = 0;
    for (size_t s = plan_.steps.size(); s-- > 0;) {
      const std::optional<size_t> reader = ReaderToMeet(s);
      if (!reader.has_value()) continue;
      const auto move = [&](auto& list) {
        std::rotate(list.begin() + s, list.begin() + s + 1,
                    list.begin() + *reader);
      };
      move(plan_.steps);
      move(touched_);
      ++moved;
    }
    return moved;
  }

 private:
  int64_t BytesOf(BufferId b) const {
    return HintBytes(plan_.buffers[b], plan_.shapes);
  }

  // The first reader of what step `s` computes, if the step should stand before it.
  std::optional<size_t> ReaderToMeet(size_t s) const {
    if (!std::holds_alternative<PlannedKernel>(plan_.steps[s]))
      return std::nullopt;
    const Touched& own = touched_[s];
    int64_t saved = 0;
    for (const BufferId b : own.writes) {
      if (plan_.buffers[b].kind != BufferKind::kTemporary || writers_[b] > 1 ||
          Has(own.reads, b)) {
        return std::nullopt;
      }
      saved += BytesOf(b);
    }
    if (saved < kLeastSavedBytes) return std::nullopt;
    size_t reader = s + 1;
    for (; reader < touched_.size(); ++reader) {
      if (HaveCommon(own.writes, touched_[reader].reads)) break;
      if (HaveCommon(own.reads, touched_[reader].writes)) return std::nullopt;
    }
    if (reader == s + 1 || reader == touched_.size()) return std::nullopt;
    // What would be free by then, if the kernel had run.
    for (const BufferId b : own.reads) {
      const BufferKind kind = plan_.buffers[b].kind;
      if (kind != BufferKind::kTemporary && kind != BufferKind::kInput)
        continue;
      const bool stays = std::any_of(
          touched_.begin() + reader, touched_.end(), [&](const Touched& later) {
            return Has(later.reads, b) || Has(later.writes, b);
          });
      if (!stays) saved -= BytesOf(b);
    }
    return saved >= kLeastSavedBytes ? std::optional(reader) : std::nullopt;
  }

  KernelPlan& plan_;
  std::vector<Touched> touched_;  // by step
  std::vector<int> writers_;      // steps that write each buffer
};

}  // namespace

int SinkKernels(KernelPlan& plan) { return Sinker(plan).Run(); }

}  // namespace kiln

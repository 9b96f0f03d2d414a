#ifndef KILN_RUNTIME_PLAN_GRAPHS_CALL_KEY_H_
#define KILN_RUNTIME_PLAN_GRAPHS_CALL_KEY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/artifact.pb.h"
#include "runtime/plan_graphs/plan_recorder.h"

namespace kiln {

// What a plan's recordings differ by: the values of its symbols that inputs have,
// in their order. All else of the forms of inputs that it takes follows from them.
class CallKey {
 public:
  explicit CallKey(const wire::LaunchPlan& plan);

  std::vector<int64_t> Of(const PlanCall& call) const;
  bool IsOf(const PlanCall& call, absl::Span<const int64_t> key) const;

  bool has_symbols() const { return !symbols_.empty(); }
  bool ReadsOffset(size_t input) const {
    return input < reads_offset_.size() && reads_offset_[input];
  }

 private:
  std::vector<wire::SymbolSource> symbols_;
  std::vector<bool> reads_offset_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_GRAPHS_CALL_KEY_H_

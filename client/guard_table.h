#ifndef KILN_CLIENT_GUARD_TABLE_H_
#define KILN_CLIENT_GUARD_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/input_view.h"
#include "runtime/plan.h"

namespace kiln {

// The conditions on a call's inputs under which one artifact may run, compiled into flat
// lists. Each input is visited once, to compare its dtype, rank, alignment and constant
// sizes and strides. Then symbols, their ranges and the expressions over them are
// checked. A guard takes a nanosecond or less.
//
// Like PyTorch and the executor (runtime/check_inputs.h), it ignores strides of
// dimensions of one element, and strides and addresses of empty tensors.
//
// Immutable, so thread-safe. Hold allocates no memory for up to kFewSymbols symbols.
class CompiledGuards {
 public:
  CompiledGuards(const Plan& plan, const std::vector<PlanGuard>& guards);

  bool Hold(absl::Span<const InputView> inputs) const;

  // Describes the first guard that fails: "input 2: size 1 is 17, expected 24".
  // Empty if all hold. For messages; slow.
  std::string WhyNot(absl::Span<const InputView> inputs) const;

  // What a compile for inputs that Hold refuses must take into account.
  struct Mismatch {
    // Dtype, rank or a constant size differs: no artifact of this graph can serve them.
    bool hopeless = false;
    std::vector<int64_t> symbols;       // values, in the order of the plan
    std::vector<SymProgram> forbidden;  // guards that fail for these values
    // For each input that is less aligned than promised: (input, its alignment in
    // bytes).
    std::vector<std::pair<int, uint32_t>> alignments;
  };
  Mismatch Examine(absl::Span<const InputView> inputs) const;

  // How many guards a call is checked against.
  int count() const;

 private:
  static constexpr int kFewSymbols = 16;

  enum class Of : uint8_t { kSize, kStride };
  // A number of an input that must equal an expression over symbols.
  struct Symbolic {
    int32_t input;
    int16_t dim;
    Of of;
    bool scalar;
    SymProgram due;
  };
  // Marks an entry of dims_ that Symbolic checks. A number that must equal kAny itself
  // is Symbolic too.
  static constexpr int64_t kAny = INT64_MIN;
  struct Due {  // what is expected of one input
    bool is_tensor;
    DType dtype;
    int32_t rank;
    uint32_t alignment_mask;
    int32_t dims;    // where in dims_ its `rank` sizes are; strides follow
    int64_t scalar;  // or kAny
  };

  // Whether a tensor's sizes and strides equal the expected ones exactly. This is fast
  // and nearly always true. HoldInput is slower; it also accepts numbers that depend on
  // symbols, and strides that do not matter.
  bool IsVery(const Due& due, const InputView& input) const;
  bool HoldInput(const Due& due, const InputView& input,
                 bool with_alignment) const;
  bool HoldInputs(absl::Span<const InputView> inputs,
                  bool with_alignment) const;
  // Values of the symbols in the order of the plan; false when out of range.
  bool BindSymbols(absl::Span<const InputView> inputs,
                   absl::Span<int64_t> values) const;
  bool HoldSymbolic(absl::Span<const InputView> inputs,
                    absl::Span<const int64_t> values) const;
  bool HoldGuards(absl::Span<const int64_t> values) const;
  void AddDims(const Plan& plan, const std::vector<ExprId>& dims, int input,
               Of of);
  std::string WhyNotInput(size_t i, const InputView& input) const;
  std::string WhyNotDims(size_t i, const InputView& tensor) const;

  std::vector<Due> due_;
  std::vector<int64_t> dims_;
  std::vector<PlanSymbol> symbols_;
  std::vector<Symbolic> symbolic_;
  std::vector<PlanGuard> guards_;
};

// Finds the artifact of a callable that serves a call. If there are several, a memo maps
// the hash of the inputs' metas to the entry that served such inputs last. Its guards are
// checked first; only if they fail are the other entries tried, newest first.
//
// Thread-safe. Entries never change: With returns a new table. The memo does change, but
// its rows are only hints.
class GuardTable {
 public:
  GuardTable() = default;

  // A table with the entries of this one and one more.
  std::shared_ptr<const GuardTable> With(CompiledGuards guards) const;

  // The index of the entry that serves `inputs`, in the order of adding; -1 if none does.
  int Find(absl::Span<const InputView> inputs) const;

  int size() const { return static_cast<int>(entries_.size()); }
  const CompiledGuards& entry(int i) const { return *entries_[i]; }

 private:
  static constexpr int kMemoRows = 64;

  std::vector<std::shared_ptr<const CompiledGuards>> entries_;
  // A hash whose low bits are replaced by the entry's index + 1; 0: empty.
  mutable std::array<std::atomic<uint64_t>, kMemoRows> memo_ = {};
};

// A hash of dtypes, sizes, strides and scalars. Addresses are left out.
uint64_t HashOfMetas(absl::Span<const InputView> inputs);

}  // namespace kiln

#endif  // KILN_CLIENT_GUARD_TABLE_H_

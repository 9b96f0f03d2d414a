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

// What must hold of a call's inputs for one artifact to serve them, compiled
// into flat lists: each input is visited once for its dtype, rank, alignment and
// constant sizes and strides (a compare each), then come symbols, their ranges
// and the expressions over them. A nanosecond a guard or less.
//
// As PyTorch and the executor (runtime/check_inputs.h), it ignores strides of
// dimensions of one element, and strides and addresses of empty tensors.
//
// Immutable, so thread-safe. Holds allocates nothing for up to kFewSymbols
// symbols.
class CompiledGuards {
 public:
  CompiledGuards(const Plan& plan, const std::vector<PlanGuard>& guards);

  bool Hold(absl::Span<const InputView> inputs) const;

  // The first guard that fails, in words: "input 2: size 1 is 17, due 24".
  // Empty when all hold. For messages; slow.
  std::string WhyNot(absl::Span<const InputView> inputs) const;

  // How inputs that Hold refuses would have to be compiled for.
  struct Mismatch {
    // The metas themselves differ: no artifact of this graph serves them.
    bool hopeless = false;
    std::vector<int64_t> symbols;       // values, in the order of the plan
    std::vector<SymProgram> forbidden;  // guards that fail for these values
    // What is true of each input's address, for those that are less aligned
    // than was promised: (input, bytes).
    std::vector<std::pair<int, uint32_t>> alignments;
  };
  Mismatch Examine(absl::Span<const InputView> inputs) const;

  // Guards that a call is tested against.
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
  // Stands among dims_ for a number that is Symbolic; one that must be this very
  // number is Symbolic too.
  static constexpr int64_t kAny = INT64_MIN;
  struct Due {  // of each input, in order
    bool is_tensor;
    DType dtype;
    int32_t rank;
    uint32_t alignment_mask;
    int32_t dims;    // where in dims_ its `rank` sizes are; strides follow
    int64_t scalar;  // or kAny
  };

  // Whether a tensor has the very numbers that are due, as nearly all have.
  // HoldInput costs more, and says what else will do.
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

// Which of a callable's artifacts serves a call. Where there are several, first
// a hash of the inputs' metas names the entry that served them last; its guards
// are tested, and only when they fail are the other entries tried, the newest
// first.
//
// Immutable but for the memo of the hash, which any number of threads may use:
// With gives a new table. A row of the memo is a hint and never trusted.
class GuardTable {
 public:
  GuardTable() = default;

  // This table and one more entry.
  std::shared_ptr<const GuardTable> With(CompiledGuards guards) const;

  // The number of the entry that serves `inputs`, in order of adding; -1 when
  // none does.
  int Find(absl::Span<const InputView> inputs) const;

  int size() const { return static_cast<int>(entries_.size()); }
  const CompiledGuards& entry(int i) const { return *entries_[i]; }

 private:
  static constexpr int kMemoRows = 64;

  std::vector<std::shared_ptr<const CompiledGuards>> entries_;
  // hash with its low bits replaced by entry + 1; 0: empty.
  mutable std::array<std::atomic<uint64_t>, kMemoRows> memo_ = {};
};

// A hash of dtypes, sizes, strides and scalars; not of addresses.
uint64_t HashOfMetas(absl::Span<const InputView> inputs);

}  // namespace kiln

#endif  // KILN_CLIENT_GUARD_TABLE_H_

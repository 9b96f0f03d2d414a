#ifndef KILN_COMPILER_SCHEDULE_INLINE_PRODUCERS_H_
#define KILN_COMPILER_SCHEDULE_INLINE_PRODUCERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/candidate_limits.h"

namespace kiln {

// When a value is computed where it is read, instead of being computed once and stored.
// Higher limits mean fewer kernels and less memory, but more arithmetic. Source:
// Inductor's realize_* thresholds, which its users know.
struct InlineLimits {
  // For values that would be computed several times, if prices do not clearly favor
  // either choice.
  int loads_when_shared = 4;  // of a producer with several readers
  int ops_when_shared = 30;
  int loads_when_repeated = 4;  // read at more points than it has elements
  // Apply however much inlining saves.
  int body = 400;  // nodes of a nest that is inlined
  int loops =
      64;  // nests that make up one nest, producers of producers included
};

struct InlineOptions {
  InlineLimits limits;
  CandidateLimits kernels;  // what they may do
  bool explain = false;
};

// Why a nest is not inlined.
enum class StayedBecause : uint8_t {
  kInlined,          // it is inlined
  kNotPointwise,     // it reduces, scans, scatters, or stores twice
  kMemoryNeeded,     // an output, a mutated input, an operand of a library call
  kStorePartial,     // the nest does not write all of its buffer, once
  kTooMuchToRepeat,  // several readers, and too many loads or operations
  kCostlyToRepeat,  // transcendental or random, and read more often than computed
  kHoldsMemory,  // large temporaries that it reads would be kept until its readers run
  kOverwritten,     // what it reads is overwritten before its readers run
  kSavesTooLittle,  // inlining does not make the program cheaper (nest_price.h)
  kBodyTooLarge,    // more nodes than `limits.body`
  kReaderTooLarge,  // a reader would get more loops than `limits.loops`
};
absl::string_view StayedName(StayedBecause because);

// For people: a nest that was not inlined though nests read its result.
struct StayedProducer {
  std::string origins;
  StayedBecause because;
  std::string detail;  // the numbers behind the reason
};

// Inlines producers: replaces reads of a pointwise nest's result by its expression, and
// drops the nest. Only nests may read the result, at any index, masked or not.
// Where a cast to a wider type alone reads a producer and would have to stay with it, the
// producer stays, whose values are narrower, and the cast is inlined into its readers.
//
// A value that is read once is always inlined: that saves its memory and repeats no work.
// If a value would be computed several times (it has several readers, or is read at more
// points than it has elements), two prices are compared (nest_price.h). One is that of
// the readers with the nest inlined. The other is that of the readers without it, plus
// what the nest costs as a kernel of its own or fused with the nest before it or with its
// first reader. The cheaper choice is taken if it saves a tenth and kLeastSavedNs.
// Otherwise later fusion matters more, and the limits decide.
//
// A nest that reads large temporaries and writes little is not inlined if that would keep
// the temporaries in memory while library calls need memory for other operands. An
// example is a nest that picks one number from each row of logits.
//
// With `explain`, returns the nests that were not inlined though nests read their
// results, in the order of the program; otherwise nothing.
//
// Linear in nodes of the resulting bodies, and of the readers that are priced.
std::vector<StayedProducer> InlineProducers(LoopProgram& program,
                                            const Target& target,
                                            const InlineOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_INLINE_PRODUCERS_H_

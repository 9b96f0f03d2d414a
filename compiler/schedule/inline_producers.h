#ifndef KILN_COMPILER_SCHEDULE_INLINE_PRODUCERS_H_
#define KILN_COMPILER_SCHEDULE_INLINE_PRODUCERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// When a value is computed where it is read, instead of once and stored.
// Source: Inductor's realize_* thresholds, which its users know. Higher: fewer
// kernels and less memory, more arithmetic.
struct InlineLimits {
  // These apply to values that would be computed several times, if prices do not
  // clearly favor one way.
  int loads_when_shared = 4;  // of a producer with several readers
  int ops_when_shared = 30;
  int loads_when_repeated = 4;  // read at more points than it has elements
  // These apply however much inlining saves.
  int body = 400;  // nodes of a nest that is computed where it is read
  int loops = 64;  // in one nest, producers of producers too
};

struct InlineOptions {
  InlineLimits limits;
  bool explain = false;
};

// Why a nest stays a nest of its own.
enum class StayedBecause : uint8_t {
  kInlined,          // it does not stay
  kNotPointwise,     // it reduces, scans, scatters, or stores twice
  kMemoryNeeded,     // an output, a mutated input, an operand of a library call
  kStorePartial,     // the nest does not write all of its buffer, once
  kTooMuchToRepeat,  // several readers, and too many loads or operations
  kCostlyToRepeat,  // transcendental or random, and read more often than computed
  kHoldsMemory,  // large temporaries that it reads would live until its readers
  kOverwritten,  // what it reads is written before it is read
  kSavesTooLittle,  // its readers are not cheaper with it (nest_price.h)
  kBodyTooLarge,
  kReaderTooLarge,  // a reader would come to more than `limits.loops`
};
absl::string_view StayedName(StayedBecause because);

// A nest that stayed though nests read its result, for people.
struct StayedProducer {
  std::string origins;
  StayedBecause because;
  std::string detail;  // the numbers behind the reason
};

// Puts each pointwise nest whose result is only read by nests in place of
// those reads, through any index and into masked reads, and drops it. It stays
// where a reader would come to more than `limits.loops`.
//
// A value that is read once is always computed there: that saves its memory and
// repeats nothing. For one that would be computed several times, for several readers
// or at more points than it has elements, two prices are compared (nest_price.h):
// the readers with it in them; and the readers without it, with what the nest adds
// as a kernel of its own or as part of the one before it or of its first reader. One
// way is taken if it saves a tenth and kLeastSavedNs. In between, where later fusion
// matters more, the limits decide.
//
// A nest that reads large temporaries and writes less stays where these would
// otherwise be gone when its readers run, and other operands of library calls are
// there instead: one number a row, picked from logits.
//
// With `explain`, gives the nests that stayed though nests read their results, in
// the order of the program; else nothing.
//
// Linear in nodes of the resulting bodies, and of the readers that are priced.
std::vector<StayedProducer> InlineProducers(LoopProgram& program,
                                            const Target& target,
                                            const InlineOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_INLINE_PRODUCERS_H_

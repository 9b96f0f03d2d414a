#ifndef KILN_COMPILER_LOOP_INLINE_PRODUCERS_H_
#define KILN_COMPILER_LOOP_INLINE_PRODUCERS_H_

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
  int loads_when_shared = 4;  // of a producer with several readers
  int ops_when_shared = 30;
  int loads_when_repeated = 4;  // read at more points than it has elements
  int body = 400;               // nodes of a nest that takes producers in
  int loops = 64;               // in one nest, producers of producers too
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
  kCostlyToRepeat,   // transcendental, and read more often than computed
  kOverwritten,      // what it reads is written before it is read
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
// With `explain`, gives the nests that stayed though nests read their results, in
// the order of the program; else nothing.
//
// Linear in nodes of the resulting bodies.
std::vector<StayedProducer> InlineProducers(LoopProgram& program,
                                            const Target& target,
                                            const InlineOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_INLINE_PRODUCERS_H_

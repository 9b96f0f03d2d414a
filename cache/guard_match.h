#ifndef KILN_CACHE_GUARD_MATCH_H_
#define KILN_CACHE_GUARD_MATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/base/sym_eval.h"
#include "proto/guard.pb.h"

namespace kiln {

// Guards that were read once, to be tried often. Const methods may run on many
// threads at once.
class GuardPrograms {
 public:
  explicit GuardPrograms(const wire::GuardSet& guards);

  // As GuardsHold of the set.
  bool Hold(absl::Span<const int64_t> values) const;

  // What Hold runs at most: the instructions of all guards, at least one of each.
  // None of a set with a guard that is unsound, which never holds.
  int64_t instructions() const { return instructions_; }

 private:
  bool sound_ = true;
  int64_t instructions_ = 0;
  std::vector<SymProgram> programs_;
};

// Do these values (canonical symbols, in order) satisfy every guard? A guard
// that cannot be evaluated - unsound, a symbol without a value, a division by
// zero - does not hold: the entry is not served, and that is always right.
bool GuardsHold(const wire::GuardSet& guards, absl::Span<const int64_t> values);

// The guards that do not hold, as a set: what a caller whose values fail
// forbids when it asks again.
wire::GuardSet GuardsBroken(const wire::GuardSet& guards,
                            absl::Span<const int64_t> values);

// "s0 <= 16 (pad: size of dim 1)", one a guard, for people.
std::vector<std::string> GuardTexts(const wire::GuardSet& guards);

}  // namespace kiln

#endif  // KILN_CACHE_GUARD_MATCH_H_

// Words for what inline_producers.h leaves where it is.

#include "compiler/schedule/inline_producers.h"

namespace kiln {

absl::string_view StayedName(StayedBecause because) {
  switch (because) {
    case StayedBecause::kInlined:
      return "inlined";
    case StayedBecause::kNotPointwise:
      return "not pointwise";
    case StayedBecause::kMemoryNeeded:
      return "memory needed";
    case StayedBecause::kStorePartial:
      return "stores a part";
    case StayedBecause::kTooMuchToRepeat:
      return "too much to repeat";
    case StayedBecause::kCostlyToRepeat:
      return "costly to repeat";
    case StayedBecause::kHoldsMemory:
      return "holds memory";
    case StayedBecause::kOverwritten:
      return "reads what is overwritten";
    case StayedBecause::kSavesTooLittle:
      return "saves too little";
    case StayedBecause::kBodyTooLarge:
      return "too large";
    case StayedBecause::kReaderTooLarge:
      return "reader too large";
  }
  return "unknown";
}

}  // namespace kiln

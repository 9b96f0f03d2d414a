#ifndef KILN_CACHE_ENTRY_ID_H_
#define KILN_CACHE_ENTRY_ID_H_

#include <string>

#include "absl/types/span.h"
#include "proto/base/digest.h"
#include "proto/guard.pb.h"

namespace kiln {

// At most this many entries under one key; the oldest gives way.
inline constexpr int kMaxEntriesPerKey = 16;

// Names an entry: a function of its key, its guards and its tuning.
Digest EntryId(const Digest& compile_key, const wire::GuardSet& guards,
               absl::Span<const std::string> tuned);

}  // namespace kiln

#endif  // KILN_CACHE_ENTRY_ID_H_

#ifndef KILN_PROTO_BASE_BOUNDED_LOG_H_
#define KILN_PROTO_BASE_BOUNDED_LOG_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Warnings that strangers can cause as often as they like.
//
//   W 2026-01-31T09:12:44.031Z peer.refused from=uid:1001 text="no rule names it"
//   W 2026-01-31T09:13:47.115Z peer.refused from=uid:1001 text="no rule names it" repeated=8113
//   W 2026-01-31T09:13:47.115Z grpc.said more=40
//
// An event that says the same as one of the last minute is counted instead, and a
// line says later how many there were. So are those of one event beyond
// kMostBoundedLines a minute ("more"), whatever they say. Both are written with the
// next bounded line or by LogCounted. A text is cut at kMostBoundedBytes.
// Thread-safe.
inline constexpr int64_t kMostBoundedLines = 20;
inline constexpr size_t kMostBoundedBytes = 256;

void LogBounded(absl::string_view event, absl::string_view from,
                absl::string_view text);

// Logs what was counted and whose minute is over. For whoever has a clock.
void LogCounted(SteadyTime now);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_BOUNDED_LOG_H_

#ifndef KILN_RUNTIME_TRACE_H_
#define KILN_RUNTIME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"

namespace kiln {

// What a step of a plan was, and when.
struct TraceEvent {
  std::string name;  // "kiln_poi_fused_add_cos_sin_0", "mm", "copy"
  // "kernel", "extern,oneDNN", "copy", "fill", "run", "graph"
  std::string category;
  int64_t start_ns = 0;  // on the steady clock
  int64_t duration_ns = 0;
  int64_t thread = 0;
  // Of the client's graph, those that it did work of: "add_3: aten.add.Tensor,
  // at model.py:12 in forward".
  std::vector<std::string> nodes;
  std::vector<std::string> kernels;  // of a device graph, those of Kiln's in it
};

// Events of one or more runs, as Chrome's trace viewer and Perfetto read them.
// Thread-safe.
class Trace {
 public:
  // Now, on the steady clock, in nanoseconds.
  static int64_t Now();

  // Adds what ran on this thread from `start_ns` until now.
  void Add(absl::string_view name, absl::string_view category, int64_t start_ns,
           std::vector<std::string> nodes = {}) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds a device graph that was replayed, with the names of its kernels: one event.
  void AddReplay(int64_t start_ns, std::vector<std::string> kernels)
      ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<TraceEvent> events() const ABSL_LOCKS_EXCLUDED(mu_);

  // {"traceEvents":[{"name":…,"cat":…,"ph":"X","ts":…,"dur":…,…}]}, times in
  // microseconds from the first event; nodes and kernels are arguments of theirs.
  std::string ToJson() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Add(TraceEvent event, int64_t start_ns) ABSL_LOCKS_EXCLUDED(mu_);

  mutable Mutex mu_;
  std::vector<TraceEvent> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_RUNTIME_TRACE_H_

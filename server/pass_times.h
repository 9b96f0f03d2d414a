#ifndef KILN_SERVER_PASS_TIMES_H_
#define KILN_SERVER_PASS_TIMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"
#include "proto/worker.pb.h"

namespace kiln {

// Where planning time goes: what each pass and step of the workers took since
// the daemon's start, summed by name. Thread-safe.
class PassTimes {
 public:
  void Add(const wire::WorkReply& reply) ABSL_LOCKS_EXCLUDED(mu_);

  // "plan.us.fuse_loops" and microseconds, sorted by name.
  std::vector<std::pair<std::string, int64_t>> Snapshot() const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  std::map<std::string, int64_t> microseconds_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_PASS_TIMES_H_

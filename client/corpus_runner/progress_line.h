#ifndef KILN_CLIENT_CORPUS_RUNNER_PROGRESS_LINE_H_
#define KILN_CLIENT_CORPUS_RUNNER_PROGRESS_LINE_H_

#include <cstdio>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Shows what is running: "gpt2_train.fwd0: building, 3 of 8 kernel units (0.9 s)". On a
// terminal it is one line that is overwritten; in a log there is a line for each change,
// at most two per second.
//
// Thread-safe.
class ProgressLine {
 public:
  enum class Place { kTerminal, kLog };
  // `file` must outlive this; it is not closed.
  ProgressLine(std::FILE* file, Place place) : file_(file), place_(place) {}
  // Clears the line on a terminal.
  ~ProgressLine();
  ProgressLine(ProgressLine&&) = delete;

  // `name` is now at `step`. The seconds shown count from its first step.
  void Show(const std::string& name, const std::string& step,
            SteadyTime now = SteadyNow()) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::FILE* const file_;
  const Place place_;
  Mutex mu_;
  std::map<std::string, SteadyTime> began_ ABSL_GUARDED_BY(mu_);
  SteadyTime last_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_PROGRESS_LINE_H_

#include "runtime/captures_under_way.h"

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"

namespace kiln {
namespace {

struct Captures {
  Mutex mu;
  int count ABSL_GUARDED_BY(mu) = 0;
};

// Of the process: a device waits for all of its streams.
Captures& OfTheProcess() {
  static auto& captures = *new Captures();
  return captures;
}

void Add(int more) {
  Captures& captures = OfTheProcess();
  MutexLock lock(&captures.mu);
  captures.count += more;
}

}  // namespace

CaptureUnderWay::CaptureUnderWay() { Add(1); }
CaptureUnderWay::~CaptureUnderWay() { Add(-1); }

bool DoOutsideCaptures(absl::FunctionRef<void()> work) {
  Captures& captures = OfTheProcess();
  MutexLock lock(&captures.mu);
  if (captures.count > 0) return false;
  work();
  return true;
}

}  // namespace kiln

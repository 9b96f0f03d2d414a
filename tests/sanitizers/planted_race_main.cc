// A data race on purpose, which no suppression may hide: the test beside this
// file checks that TSan ends the program for it.
#include <cstdio>
#include <thread>

#include "absl/time/time.h"

namespace kiln {
namespace {

int unguarded = 0;

// Abseil in the signature, since suppressions name Abseil.
void Add(absl::Duration times) {
  for (int64_t i = 0; i < absl::ToInt64Seconds(times); ++i) ++unguarded;
}

}  // namespace
}  // namespace kiln

int main() {
#ifdef __SANITIZE_THREAD__
  std::puts("built with TSan");
#else
  std::puts("built without TSan");
#endif
  std::thread first(kiln::Add, absl::Seconds(1000));
  std::thread second(kiln::Add, absl::Seconds(1000));
  first.join();
  second.join();
  return 0;
}

// What ThreadSanitizer is told to pass over: libraries of the system, which are
// not built with it, so that it sees their memory and not their locks. Read by
// its run-time in every program; other builds ignore it.
//
// Never a line for our own code. `^` keeps a line from matching our functions
// whose arguments have such types. tests/sanitizers plants a race and checks
// that it is still found.

extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libprotobuf.so\n"
         "called_from_lib:librocksdb.so\n"
         "race:^grpc::\n"
         "race:^grpc_core::\n"
         "race:^google::protobuf::\n"
         "race:^absl::\n"
         "race:^rocksdb::\n"
         "race:libgrpc.so\n"
         "race:libgrpc++.so\n"
         "race:libprotobuf.so\n"
         "race:libabsl_\n"
         "race:librocksdb.so\n"
         "mutex:libgrpc.so\n"
         "mutex:librocksdb.so\n"
         "deadlock:libgrpc.so\n"
         "deadlock:librocksdb.so\n"
         "signal:libgrpc.so\n";
}

#ifdef __SANITIZE_THREAD__

#include <dlfcn.h>

#include <cstdint>

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);

// absl::Status counts its users up inline, where TSan sees it, and down in
// libabsl_status, where it does not; the last user's free then looks like a
// race with another's copy. This stands in front of the library's function and
// tells TSan of the order that the count gives.
#define KILN_UNREF_STATUS "_ZN4absl7debian36Status15UnrefNonInlinedEm"
void UnrefStatus(uintptr_t rep) asm(KILN_UNREF_STATUS);

void UnrefStatus(uintptr_t rep) {
  using Unref = void (*)(uintptr_t);
  static const auto library =
      reinterpret_cast<Unref>(dlsym(RTLD_NEXT, KILN_UNREF_STATUS));
  void* const count = reinterpret_cast<void*>(rep & ~uintptr_t{3});
  __tsan_release(count);
  __tsan_acquire(count);
  library(rep);
}

#endif  // __SANITIZE_THREAD__

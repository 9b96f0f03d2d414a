// What ThreadSanitizer is told to pass over: libraries of the system, which are
// not built with it, so that it sees their memory and not their locks. Read by
// its run-time in every program; other builds ignore it.
//
// `race_top` looks at the frame of the access alone, `race` at every frame, so
// that it also silences what is called from there: it stands here for
// libraries that never call us, and for the three places where gRPC hands an
// object of ours from thread to thread under locks of its own:
//   CallOpSet    the messages of a batch, filled in and read back
//   StaticRun    a batch is done: OnWriteDone, OnReadDone
//   CallOnDone   a call is done: OnDone
// and for OnCancel of a Compile call, which the library calls itself, below no
// frame with a name. Handlers, what they call, and all threads of ours are
// watched. tests/sanitizers plants races and checks that they are found.

extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libprotobuf.so\n"
         "called_from_lib:librocksdb.so\n"
         "race:libabsl_cord.so\n"
         "race:libabsl_cord_internal.so\n"
         "race:libabsl_graphcycles_internal.so\n"
         "race:libabsl_random_internal_pool_urbg.so\n"
         "race:libabsl_status.so\n"
         "race:libabsl_strerror.so\n"
         "race:libabsl_time_zone.so\n"
         "race:libupb.so\n"
         "race:^grpc::internal::CallOpSet<\n"
         "race:^grpc::internal::CallbackWithSuccessTag::StaticRun\n"
         "race:^grpc::internal::*::CallOnDone()\n"
         "race:^kiln::(anonymous namespace)::CompileCall::OnCancel()\n"
         "race_top:^grpc::\n"
         "race_top:^grpc_core::\n"
         "race_top:^google::protobuf::\n"
         "race_top:libgrpc.so\n"
         "race_top:libprotobuf.so\n"
         "race_top:librocksdb.so\n"
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

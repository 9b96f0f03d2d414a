// What ThreadSanitizer is told to pass over: libraries of the system, which are
// not built with it, so that it sees their memory and not their locks. Read by
// its run-time in every program; other builds ignore it.
//
// `race_top` looks at the frame of the access alone, `race` at every frame, so
// that it also silences what is called from there: it stands here for
// libraries that never call us, for RocksDB, whose threads call our logger and
// nothing else, for what RocksDB unpacks blocks with, and for the four places where gRPC hands an object of ours
// from thread to thread:
//   CallOpSet    the messages of a batch, filled in and read back
//   StaticRun    a batch is done: OnWriteDone, OnReadDone
//   CallOnDone   a call is done: OnDone
//   ~ServerCallbackReaderWriterImpl  the end of a generic call
// and for OnCancel of a Compile call, which the library calls itself, below no
// frame with a name. Handlers, what they call, and all threads of ours are
// watched. tests/sanitizers plants races and checks that they are found.

extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libprotobuf.so\n"
         "called_from_lib:librocksdb.so\n"
         "called_from_lib:libsnappy.so\n"
         "called_from_lib:liblz4.so\n"
         "called_from_lib:libzstd.so\n"
         "called_from_lib:libcrypto.so\n"
         "called_from_lib:libssl.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "race:libabsl_cord.so\n"
         "race:libabsl_cord_internal.so\n"
         "race:libabsl_graphcycles_internal.so\n"
         "race:libabsl_random_internal_pool_urbg.so\n"
         "race:libabsl_status.so\n"
         "race:libabsl_strerror.so\n"
         "race:libabsl_time_zone.so\n"
         "race:librocksdb.so\n"
         "race:libupb.so\n"
         "race:^grpc::internal::CallOpSet<\n"
         "race:^grpc::internal::CallbackWithSuccessTag::StaticRun\n"
         "race:^grpc::internal::*::CallOnDone()\n"
         "race:^grpc::internal::*::~ServerCallbackReaderWriterImpl()\n"
         "race:^kiln::(anonymous namespace)::CompileCall::OnCancel()\n"
         "race_top:^grpc::\n"
         "race_top:^grpc_core::\n"
         "race_top:^google::protobuf::\n"
         "race_top:libgrpc.so\n"
         "race_top:libprotobuf.so\n"
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
extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();

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
  __tsan_ignore_thread_begin();
  library(rep);
  __tsan_ignore_thread_end();
}

// The locks under which gRPC hands objects from thread to thread are
// absl::Mutexes, taken in libabsl_synchronization, where TSan sees nothing.
// These stand in front of the library's functions and tell of the order. They
// are written as functions of the object's address, which is what a member
// function is to its caller here.
#define KILN_LOCK "_ZN4absl7debian35Mutex4LockEv"
#define KILN_TRY_LOCK "_ZN4absl7debian35Mutex7TryLockEv"
#define KILN_UNLOCK "_ZN4absl7debian35Mutex6UnlockEv"
#define KILN_WAIT "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE"
void Lock(void* mutex) asm(KILN_LOCK);
bool TryLock(void* mutex) asm(KILN_TRY_LOCK);
void Unlock(void* mutex) asm(KILN_UNLOCK);
void Wait(void* condition, void* mutex) asm(KILN_WAIT);

void Lock(void* mutex) {
  static const auto library =
      reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, KILN_LOCK));
  library(mutex);
  __tsan_acquire(mutex);
}

bool TryLock(void* mutex) {
  static const auto library =
      reinterpret_cast<bool (*)(void*)>(dlsym(RTLD_NEXT, KILN_TRY_LOCK));
  const bool taken = library(mutex);
  if (taken) __tsan_acquire(mutex);
  return taken;
}

void Unlock(void* mutex) {
  static const auto library =
      reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, KILN_UNLOCK));
  __tsan_release(mutex);
  library(mutex);
}

void Wait(void* condition, void* mutex) {
  static const auto library =
      reinterpret_cast<void (*)(void*, void*)>(dlsym(RTLD_NEXT, KILN_WAIT));
  __tsan_release(mutex);
  library(condition, mutex);
  __tsan_acquire(mutex);
}

// RocksDB has one of those who write at once copy the batches of all, in
// libstdc++, below no frame of its own. This stands in front of its Write, takes
// what that takes (memory for the status that it gives, first), and has TSan look
// away meanwhile.
#define KILN_ROCKSDB_WRITE \
  "_ZN7rocksdb6DBImpl5WriteERKNS_12WriteOptionsEPNS_10WriteBatchE"
void* RocksDbWrite(void* status, void* db, const void* options,
                   void* batch) asm(KILN_ROCKSDB_WRITE);

void* RocksDbWrite(void* status, void* db, const void* options, void* batch) {
  using Write = void* (*)(void*, void*, const void*, void*);
  static const auto library =
      reinterpret_cast<Write>(dlsym(RTLD_NEXT, KILN_ROCKSDB_WRITE));
  __tsan_ignore_thread_begin();
  void* const result = library(status, db, options, batch);
  __tsan_ignore_thread_end();
  return result;
}

// RocksDB's threads read blocks that readers' threads unpacked, in libstdc++, below
// no frame of RocksDB. This stands in front of what they run, and has TSan look away
// for their whole life: of ours they call the logger alone.
#define KILN_ROCKSDB_THREAD \
  "_ZN7rocksdb14ThreadPoolImpl4Impl15BGThreadWrapperEPv"
void* RocksDbThread(void* pool) asm(KILN_ROCKSDB_THREAD);

void* RocksDbThread(void* pool) {
  static const auto library =
      reinterpret_cast<void* (*)(void*)>(dlsym(RTLD_NEXT, KILN_ROCKSDB_THREAD));
  __tsan_ignore_thread_begin();
  void* const result = library(pool);
  __tsan_ignore_thread_end();
  return result;
}

#endif  // __SANITIZE_THREAD__

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

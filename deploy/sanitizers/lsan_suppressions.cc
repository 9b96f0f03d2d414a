// What LeakSanitizer is told to pass over: Debian's c-ares loses ten bytes with each
// look-up of "localhost", which gRPC's clients make. Read by its run-time; other builds
// ignore it.

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libcares.so\n";
}

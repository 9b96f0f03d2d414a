// What AddressSanitizer and LeakSanitizer are told. Read by their run-time in
// every program; other builds have nothing of it.

#ifdef __SANITIZE_ADDRESS__

// LeakSanitizer guesses where the thread-local memory of a library that was
// opened later begins, by what glibc puts before it, and reads from wherever the
// guess leads: with NVRTC opened it dies at a program's end. Without this
// interceptor it makes no guess. Thread-local memory of the program itself is
// looked through as before.
extern "C" const char* __asan_default_options() {
  return "intercept_tls_get_addr=0";
}

// Debian's c-ares loses ten bytes with each look-up of "localhost", which gRPC's
// clients make. cuBLASLt loses 192 bytes where it finds no GPU to open.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libcares.so\nleak:libcublasLt.so\n";
}

#endif  // __SANITIZE_ADDRESS__

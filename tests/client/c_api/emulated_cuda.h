#ifndef KILN_TESTS_CLIENT_C_API_EMULATED_CUDA_H_
#define KILN_TESTS_CLIENT_C_API_EMULATED_CUDA_H_

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "client/c_api/kiln.h"
#include "client/c_api/kiln_graphs.h"
#include "gtest/gtest.h"

// Sessions of the C ABI on the emulated driver: kernels compute, a captured
// stream keeps them, and what was launched is counted. The device's memory is
// the host's.

namespace kiln {

inline constexpr char kEmulator[] = "tests/support/cuda_emulator";

// The emulated driver, under the name that the runtime opens.
inline void* Driver() {
  static void* const library =
      dlopen((std::string(kEmulator) + "/libcuda.so.1").c_str(), RTLD_NOW);
  return library;
}

struct Counts {
  int64_t put = 0;     // kernels, copies and fills outside of graphs
  int64_t graphs = 0;  // launched
};

inline Counts CountsNow() {
  const auto count = reinterpret_cast<void (*)(int64_t*, int64_t*)>(
      dlsym(Driver(), "kiln_emulator_counts"));
  Counts counts;
  count(&counts.put, &counts.graphs);
  return counts;
}

// Takes the status; expects none.
inline void Take(KilnStatus* status) {
  if (status == nullptr) return;
  ADD_FAILURE() << kiln_status_message(status);
  kiln_status_free(status);
}

// A session with a worker of the test's own; null after a failure.
inline KilnSession* OpenEmulated(
    KilnDevice device, int32_t graphs,
    const KilnGraphOptions* graph_options = nullptr) {
  EXPECT_NE(Driver(), nullptr) << dlerror();
  const std::string worker =
      std::filesystem::absolute("compiler/kiln-worker").string();
  const std::string environment =
      "KILN_CUDA_LIBRARY_PATH=" + std::filesystem::absolute(kEmulator).string();
  KilnSessionOptions options = {};
  options.struct_size = sizeof(options);
  options.fallback = KILN_LOCAL_ONLY;
  options.worker_program = worker.c_str();
  options.worker_environment = environment.c_str();
  options.device = device;
  options.threads = 1;
  options.graphs = graphs;
  options.graph_options = graph_options;
  KilnSession* session = nullptr;
  Take(kiln_session_open(&options, &session));
  return session;
}

}  // namespace kiln

#endif  // KILN_TESTS_CLIENT_C_API_EMULATED_CUDA_H_

#ifndef KILN_COMPILER_CONFIG_TARGET_H_
#define KILN_COMPILER_CONFIG_TARGET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

enum class TargetKind : uint8_t { kCpu, kCuda };

// The same on every CUDA architecture. Source: CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability" and "Device Memory Accesses".
inline constexpr int kWarp = 32;                // threads of a warp
inline constexpr int kMostThreads = 1024;       // threads of a block, at most
inline constexpr int64_t kMaxAccessBytes = 16;  // of one load or store
inline constexpr int64_t kLineBytes = 128;      // of a line of a GPU's caches

// Shared memory of a multiprocessor that each block takes beside what it asks for.
inline constexpr int64_t kSharedOfBlock = 1 << 10;

// What code is made for, and the chip's numbers that decisions use. A function of
// the name alone: the machine that compiles is never asked.
struct Target {
  TargetKind kind = TargetKind::kCpu;
  std::string name;  // "sm_90", "x86-64-v3"

  // CPU.
  int vector_bytes = 32;  // of one vector register: 16 (v2), 32 (v3), 64 (v4)
  bool avx512_bf16 = false;
  bool amx_bf16 = false;

  // CUDA. Source: CUDA C++ Programming Guide, "Compute Capabilities". The cost
  // model assumes the largest chip of that name; smaller ones run the same code.
  int compute_capability = 0;                 // 90
  int64_t shared_bytes_per_block = 48 << 10;  // without opting in
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048;
  int64_t registers_per_multiprocessor = 64 << 10;
  // A block that opts in can have all but kSharedOfBlock of it.
  int64_t shared_bytes_per_multiprocessor = 228 << 10;
  double memory_bytes_per_ns = 4190;  // of a copy, read and written
  double cycles_per_ns = 1.7;
  // red.global.add of vectors of float32 and of halves (PTX ISA, "red").
  bool vector_atomics = false;
  // A kernel may start before the work ahead of it on its stream has ended, and
  // wait for that itself.
  bool dependent_launch = false;
};

// "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "x86-64",
// "x86-64-v2", "x86-64-v3", "x86-64-v4". BAD_TARGET names what is not known.
absl::StatusOr<Target> TargetFromName(absl::string_view name);

}  // namespace kiln

#endif  // KILN_COMPILER_CONFIG_TARGET_H_

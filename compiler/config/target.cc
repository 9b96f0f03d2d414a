#include "compiler/config/target.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct CpuLevel {
  absl::string_view name;
  int vector_bytes;
};
// Source: System V ABI for AMD64, "Micro-architecture levels".
constexpr CpuLevel kCpuLevels[] = {
    {"x86-64", 16}, {"x86-64-v2", 16}, {"x86-64-v3", 32}, {"x86-64-v4", 64}};

// Multiprocessors, threads and clock: NVIDIA's data sheets of the A100 80 GB,
// RTX A6000, L40S, H200 and B200. Memory: nine tenths of the data sheet's, which
// is what a copy reaches on the H200.
struct CudaArch {
  absl::string_view name;
  int compute_capability;
  int multiprocessors;
  int threads_per_multiprocessor;
  double memory_bytes_per_ns;
  double cycles_per_ns;
  int64_t shared_bytes;  // of a multiprocessor
};
constexpr CudaArch kCudaArchs[] = {
    {"sm_80", 80, 108, 2048, 1830, 1.4, 164 << 10},
    {"sm_86", 86, 84, 1536, 690, 1.8, 100 << 10},
    {"sm_89", 89, 142, 1536, 780, 2.5, 100 << 10},
    {"sm_90", 90, 132, 2048, 4190, 1.7, 228 << 10},
    {"sm_90a", 90, 132, 2048, 4190, 1.7, 228 << 10},
    {"sm_100", 100, 148, 2048, 7000, 1.8, 228 << 10},
    {"sm_100a", 100, 148, 2048, 7000, 1.8, 228 << 10}};

}  // namespace

absl::StatusOr<Target> TargetFromName(absl::string_view name) {
  Target target;
  target.name = std::string(name);
  for (const CpuLevel& level : kCpuLevels) {
    if (level.name != name) continue;
    target.kind = TargetKind::kCpu;
    target.vector_bytes = level.vector_bytes;
    return target;
  }
  for (const CudaArch& arch : kCudaArchs) {
    if (arch.name != name) continue;
    target.kind = TargetKind::kCuda;
    target.compute_capability = arch.compute_capability;
    target.multiprocessors = arch.multiprocessors;
    target.threads_per_multiprocessor = arch.threads_per_multiprocessor;
    target.memory_bytes_per_ns = arch.memory_bytes_per_ns;
    target.cycles_per_ns = arch.cycles_per_ns;
    target.shared_bytes_per_multiprocessor = arch.shared_bytes;
    target.vector_atomics = arch.compute_capability >= 90;
    target.dependent_launch = arch.compute_capability >= 90;
    return target;
  }
  return MakeError(ErrorReason::kBadTarget,
                   absl::StrCat("target ", name.substr(0, 64),
                                ": not one of sm_80, sm_86, sm_89, sm_90, "
                                "sm_90a, sm_100, sm_100a, x86-64, x86-64-v2, "
                                "x86-64-v3, x86-64-v4"));
}

}  // namespace kiln

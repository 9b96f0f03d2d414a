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

struct CudaArch {
  absl::string_view name;
  int compute_capability;
};
constexpr CudaArch kCudaArchs[] = {
    {"sm_80", 80},  {"sm_86", 86},   {"sm_89", 89},   {"sm_90", 90},
    {"sm_90a", 90}, {"sm_100", 100}, {"sm_100a", 100}};

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

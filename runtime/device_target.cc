#include "runtime/device_target.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// By DeviceTraits::cpu_level - 1.
constexpr absl::string_view kCpuLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3",
                                            "x86-64-v4"};

// 1 to 4; 0 for a name that is not a level.
int CpuLevelOf(absl::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (kCpuLevels[i] == name) return i + 1;
  }
  return 0;
}

std::string DeviceText(const DeviceTraits& traits) {
  if (traits.kind == DeviceKind::kCuda) {
    return absl::StrCat("cuda:", traits.ordinal, " (", traits.name, ", sm_",
                        traits.compute_major, traits.compute_minor, ")");
  }
  return absl::StrCat("cpu (", kCpuLevels[traits.cpu_level - 1], ")");
}

absl::Status Incompatible(absl::string_view needs, const DeviceTraits& traits) {
  return MakeError(ErrorReason::kArtifactIncompatible,
                   absl::StrCat("artifact: made for ", needs, ", this is ",
                                DeviceText(traits)));
}

absl::Status CheckCpu(const wire::CpuTarget& target,
                      const DeviceTraits& traits) {
  const int level = CpuLevelOf(target.level());
  if (level == 0 || level > traits.cpu_level) {
    return Incompatible(absl::StrCat("cpu ", target.level()), traits);
  }
  if (target.avx512_bf16() && !traits.avx512_bf16) {
    return Incompatible("cpu with avx512_bf16", traits);
  }
  if (target.amx_bf16() && !traits.amx_bf16) {
    return Incompatible("cpu with amx_bf16", traits);
  }
  return absl::OkStatus();
}

absl::Status CheckCuda(const wire::CudaTarget& target,
                       const DeviceTraits& traits) {
  absl::string_view digits = target.arch();
  const bool known_prefix = absl::ConsumePrefix(&digits, "sm_");
  const bool exact = absl::ConsumeSuffix(&digits, "a");
  int number = 0;
  if (!known_prefix || !absl::SimpleAtoi(digits, &number)) {
    return Incompatible(target.arch(), traits);
  }
  const int major = number / 10;
  const int minor = number % 10;
  const bool minor_fits =
      exact ? minor == traits.compute_minor : minor <= traits.compute_minor;
  if (major != traits.compute_major || !minor_fits) {
    return Incompatible(target.arch(), traits);
  }
  return absl::OkStatus();
}

}  // namespace

wire::Target TargetOf(const DeviceTraits& traits) {
  wire::Target target;
  if (traits.kind == DeviceKind::kCuda) {
    wire::CudaTarget& cuda = *target.mutable_cuda();
    // Without the "a": no kernel of ours needs such a feature set yet, and
    // plain code serves more devices.
    cuda.set_arch(
        absl::StrCat("sm_", traits.compute_major, traits.compute_minor));
    return target;
  }
  wire::CpuTarget& cpu = *target.mutable_cpu();
  cpu.set_level(std::string(kCpuLevels[traits.cpu_level - 1]));
  cpu.set_avx512_bf16(traits.avx512_bf16);
  cpu.set_amx_bf16(traits.amx_bf16);
  return target;
}

absl::Status CheckTarget(const wire::Target& target,
                         const DeviceTraits& traits) {
  if (traits.kind == DeviceKind::kNull) return absl::OkStatus();
  switch (target.kind_case()) {
    case wire::Target::kCpu:
      if (traits.kind != DeviceKind::kCpu) return Incompatible("cpu", traits);
      return CheckCpu(target.cpu(), traits);
    case wire::Target::kCuda:
      if (traits.kind != DeviceKind::kCuda) {
        return Incompatible(target.cuda().arch(), traits);
      }
      return CheckCuda(target.cuda(), traits);
    case wire::Target::KIND_NOT_SET:
      break;
  }
  return MakeError(ErrorReason::kArtifactCorrupt,
                   "artifact: it names no target");
}

absl::Status CheckDriver(uint32_t least_cuda_version,
                         const DeviceTraits& traits) {
  if (traits.kind != DeviceKind::kCuda ||
      least_cuda_version <= static_cast<uint32_t>(traits.driver_cuda_version)) {
    return absl::OkStatus();
  }
  return Incompatible(absl::StrCat("drivers of CUDA ", least_cuda_version,
                                   " and later (this one runs ",
                                   traits.driver_cuda_version, ")"),
                      traits);
}

}  // namespace kiln

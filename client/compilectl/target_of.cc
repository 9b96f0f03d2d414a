#include "client/compilectl/target_of.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/device_target.h"
#include "runtime/open_device.h"

namespace kiln {

absl::StatusOr<wire::Target> TargetOf(const std::string& device,
                                      const std::string& arch) {
  wire::Target target;
  const bool of_gpu = absl::StartsWith(arch, "sm_");
  if (!arch.empty() && of_gpu != (device == "cuda")) {
    return MakeError(
        ErrorReason::kBadTarget,
        absl::StrCat("--arch ", arch, ": ",
                     of_gpu
                         ? "needs --device cuda; for a CPU use a level like "
                           "x86-64-v3"
                         : "needs --device cpu; for a GPU use one like sm_90"));
  }
  if (device == "cuda") {
    target.mutable_cuda()->set_arch(arch.empty() ? "sm_90" : arch);
    return target;
  }
  if (device != "cpu") {
    return MakeError(ErrorReason::kBadTarget,
                     absl::StrCat("device ", device, ": expected cpu or cuda"));
  }
  if (!arch.empty()) {
    target.mutable_cpu()->set_level(arch);
    return target;
  }
  ASSIGN_OR_RETURN(const OpenedDevice here, OpenDevice({.threads = 1}));
  return TargetOf(here.device->traits());
}

}  // namespace kiln

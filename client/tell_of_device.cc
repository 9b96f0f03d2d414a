#include "client/tell_of_device.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "runtime/device.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

void TellOfDevice(const OpenedDevice& device, wire::CompileRequest& request) {
  request.set_driver_cuda_version(
      static_cast<uint32_t>(device.device->traits().driver_cuda_version));
  const auto& nodes = request.graph().nodes();
  const bool attends =
      std::any_of(nodes.begin(), nodes.end(), [](const wire::Node& node) {
        return absl::StrContains(node.op(), "attention");
      });
  if (attends && device.externs->LacksAttention())
    request.mutable_options()->mutable_artifact()->set_own_attention(true);
}

}  // namespace kiln

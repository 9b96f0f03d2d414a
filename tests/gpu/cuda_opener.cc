#include "tests/gpu/cuda_opener.h"

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/open_device.h"

namespace kiln {
namespace {

OpenedDevice Open(int ordinal) {
  DeviceConfig config;
  config.kind = DeviceKind::kCuda;
  config.ordinal = ordinal;
  if (const char* folders = std::getenv("KILN_CUDA_LIBRARY_PATH")) {
    config.library_folders =
        std::vector<std::string>(absl::StrSplit(folders, ':'));
  }
  config.library_folders.push_back("/usr/local/cuda/lib64");
  absl::StatusOr<OpenedDevice> device = OpenDevice(config);
  if (device.ok()) return *device;
  std::cerr << "no GPU " << ordinal
            << " here, its tests are skipped: " << device.status() << "\n";
  EXPECT_EQ(ReasonOf(device.status()), ErrorReason::kNoDevice);
  return {};
}

}  // namespace

OpenedDevice OpenCudaOrNull() {
  static const OpenedDevice first = Open(0);
  return first;
}

OpenedDevice OpenSecondCudaOrNull() {
  static const OpenedDevice second = Open(1);
  return second;
}

}  // namespace kiln

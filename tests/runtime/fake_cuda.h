#ifndef KILN_TESTS_RUNTIME_FAKE_CUDA_H_
#define KILN_TESTS_RUNTIME_FAKE_CUDA_H_

#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "runtime/cuda_device.h"
#include "runtime/extern_kernels/cuda_externs.h"
#include "runtime/opened_device.h"
#include "tests/runtime/test_artifact.h"

// A CudaDevice over a driver of host memory (fake_cuda_driver.cc).

namespace kiln {

inline constexpr char kFakeFolder[] = "tests/runtime/fake_cuda";

inline OpenedDevice Fake() {
  auto device = CudaDevice::Open(0, {kFakeFolder});
  EXPECT_TRUE(device.ok()) << device.status();
  return {*device, MakeCudaExterns(*device, {})};
}

// y = x + term, x: f32[6], by a launch; then z = y as [2, 3] transposed.
inline wire::Artifact AddArtifact() {
  wire::Artifact artifact = MakeTestArtifact(R"(
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 6 } strides { value: 1 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" }
    buffers { kind: KIND_ARENA name: "y" bytes { value: 24 } }
    buffers { kind: KIND_OUTPUT name: "z" bytes { value: 24 } }
    arena_bytes { value: 24 }
    kernels { symbol: "test_add" label: "add_0" }
    steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { buffer { buffer: 1 } }
      args { scalar { value: 6 } } args { scalar { value: 5 } } shared_bytes: 65536
      grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 32 block: 1 block: 1 } }
    steps { copy {
      from { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 3 }
        strides { value: 3 } strides { value: 1 } }
      to { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 3 }
        strides { value: 1 } strides { value: 2 } } } }
    outputs { view { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 6 } strides { value: 1 } } }
  )");
  artifact.mutable_target()->mutable_cuda()->set_arch("sm_90");
  return artifact;
}

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_FAKE_CUDA_H_

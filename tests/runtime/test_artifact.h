#ifndef KILN_TESTS_RUNTIME_TEST_ARTIFACT_H_
#define KILN_TESTS_RUNTIME_TEST_ARTIFACT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/artifact.pb.h"
#include "runtime/artifact_view.h"
#include "runtime/executor.h"
#include "runtime/open_device.h"
#include "runtime/tensor.h"

// Artifacts written by hand, for tests of the runtime.

namespace kiln {

// An Artifact for any CPU with this LaunchPlan (text format), whose one module
// exports the kernels of test_kernels.cc, and these constants.
wire::Artifact MakeTestArtifact(const std::string& plan_text,
                                const std::vector<std::string>& constants = {});

// Sealed with its checksum, not signed.
wire::SignedArtifact Seal(const wire::Artifact& artifact);

// Loads and binds it on the device, unsigned artifacts allowed.
absl::StatusOr<std::shared_ptr<const Executor>> Load(
    const wire::SignedArtifact& sealed, const OpenedDevice& device);

// A CPU device with two threads.
OpenedDevice TestCpu();

// An f32 tensor on the CPU that owns a copy of `values`.
Tensor FloatTensor(const Dims& sizes, const std::vector<float>& values);
// Its elements in row-major order, whatever its strides.
std::vector<float> FloatValues(const Tensor& tensor);

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_TEST_ARTIFACT_H_

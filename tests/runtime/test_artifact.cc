#include "tests/runtime/test_artifact.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  EXPECT_FALSE(bytes.str().empty()) << path;
  return bytes.str();
}

}  // namespace

wire::Artifact MakeTestArtifact(const std::string& plan_text,
                                const std::vector<std::string>& constants) {
  wire::Artifact artifact;
  artifact.set_format_version(kArtifactFormatVersion);
  artifact.mutable_target()->mutable_cpu()->set_level("x86-64");
  wire::CompilePlan& compiled = *artifact.mutable_compiled();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      plan_text, compiled.mutable_plan()));
  for (const std::string& bytes : constants) {
    compiled.add_constants()->set_data(bytes);
  }
  artifact.add_objects()->set_image(ReadFile("tests/runtime/test_kernels.so"));
  return artifact;
}

wire::SignedArtifact Seal(const wire::Artifact& artifact) {
  wire::SignedArtifact sealed;
  sealed.set_artifact(artifact.SerializeAsString());
  sealed.set_xxh3(Xxh3_64(sealed.artifact()));
  return sealed;
}

absl::StatusOr<std::shared_ptr<const Executor>> Load(
    const wire::SignedArtifact& sealed, const OpenedDevice& device) {
  TrustPolicy trust;
  trust.unsigned_artifacts = TrustPolicy::Unsigned::kAllow;
  ASSIGN_OR_RETURN(ArtifactView view,
                   ArtifactView::Parse(sealed, trust, device.device->traits()));
  ASSIGN_OR_RETURN(std::shared_ptr<const LoadedArtifact> loaded,
                   LoadedArtifact::Load(std::move(view), device));
  return Executor::Create(std::move(loaded));
}

OpenedDevice TestCpu() {
  absl::StatusOr<OpenedDevice> device = OpenDevice({.threads = 2});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

Tensor FloatTensor(const Dims& sizes, const std::vector<float>& values) {
  EXPECT_EQ(NumElements(sizes), static_cast<int64_t>(values.size()));
  auto owner = std::make_shared<std::vector<float>>(values);
  Tensor tensor;
  tensor.data = owner->data();
  tensor.storage = tensor.data;
  tensor.sizes = sizes;
  tensor.strides = ContiguousStrides(sizes);
  tensor.owner = std::move(owner);
  return tensor;
}

std::vector<float> FloatValues(const Tensor& tensor) {
  std::vector<float> values;
  const int64_t count = NumElements(tensor.sizes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (size_t dim = tensor.sizes.size(); dim-- > 0;) {
      at += rest % tensor.sizes[dim] * tensor.strides[dim];
      rest /= tensor.sizes[dim];
    }
    values.push_back(static_cast<const float*>(tensor.data)[at]);
  }
  return values;
}

}  // namespace kiln

// A signed artifact, as a client parses it. Its checksum is put right; who signed
// it is not asked, since that ends every change at once.

#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/seal.h"
#include "proto/plan/plan_text.h"
#include "runtime/artifact_view.h"
#include "runtime/device.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/seed_plan.h"

namespace kiln {

std::vector<std::string> FuzzSeeds() {
  wire::Artifact artifact;
  artifact.set_format_version(kArtifactFormatVersion);
  artifact.mutable_target()->mutable_cpu()->set_level("x86-64");
  artifact.mutable_compiled()->mutable_constants()->Add()->set_data("12345678");
  artifact.add_objects()->set_image("object code");
  const std::string bare = artifact.SerializeAsString();
  *artifact.mutable_compiled()->mutable_plan() = *ParsePlan(kSeedPlan);
  return {artifact.SerializeAsString(), bare};
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  TrustPolicy trust;
  trust.unsigned_artifacts = TrustPolicy::Unsigned::kAllow;
  DeviceTraits cpu;
  cpu.kind = DeviceKind::kCpu;
  static_cast<void>(
      ArtifactView::Parse(UnsignedArtifact(std::string(FuzzText(data, size))),
                          trust, cpu)
          .status());
  static_cast<void>(
      ArtifactView::ParseBytes(FuzzText(data, size), trust, cpu).status());
  return 0;
}

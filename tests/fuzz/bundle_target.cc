// A bundle of artifacts from another machine. The digest at its head is put right,
// or every change would end there; the bytes as they are, too.

#include "client/artifact_bundle.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"
#include "proto/base/seal.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {

constexpr size_t kMarkBytes = 8;

std::vector<std::string> FuzzSeeds() {
  const SigningKey key = *SigningKey::Generate();
  wire::ArtifactEnvelope envelope;
  envelope.set_cache_namespace("default");
  return {WriteBundle(
              {SealArtifact(key, envelope, "one"), UnsignedArtifact("two")}),
          WriteBundle({})};
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  const std::string bytes(FuzzText(data, size));
  static_cast<void>(ReadBundle(bytes).status());
  const size_t head = kMarkBytes + Digest::kBytes;
  if (size < head) return 0;
  const std::string payload = bytes.substr(head);
  static_cast<void>(ReadBundle(bytes.substr(0, kMarkBytes) +
                               std::string(Sha256Of(payload).bytes()) + payload)
                        .status());
  return 0;
}

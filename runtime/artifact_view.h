#ifndef KILN_RUNTIME_ARTIFACT_VIEW_H_
#define KILN_RUNTIME_ARTIFACT_VIEW_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/trusted_keys.h"
#include "runtime/device.h"
#include "runtime/plan.h"

namespace kiln {

namespace wire {
class Artifact;
class SignedArtifact;
}  // namespace wire

// Whose artifacts are loaded. An artifact is code: with no key and unsigned
// ones refused, nothing is.
struct TrustPolicy {
  enum class Unsigned {
    kRefuse,
    kAllow,  // for a client's own local worker, and tests
  };
  // From the client's configuration; never from an artifact.
  TrustedKeys keys;
  Unsigned unsigned_artifacts = Unsigned::kRefuse;
};

// An artifact whose bytes are sound, whose signer is trusted and whose target
// the device is. A value; copies share the bytes. Thread-compatible.
class ArtifactView {
 public:
  // Checks, in this order: the checksum of the bytes, the signature (an
  // artifact with one must verify, also where unsigned ones are allowed), the
  // format version, the target against `device`, the structure of the plan.
  //
  // ARTIFACT_CORRUPT       checksum, protobuf or structure of the plan
  // ARTIFACT_UNTRUSTED     no signature, a signer that is unknown, revoked or of
  //                        another namespace, a wrong signature
  // ARTIFACT_INCOMPATIBLE  another format version, another device
  // UNSUPPORTED_OP         a step that the runtime does not run: host, region
  static absl::StatusOr<ArtifactView> Parse(const wire::SignedArtifact& sealed,
                                            const TrustPolicy& trust,
                                            const DeviceTraits& device);
  // The same from serialized SignedArtifact bytes.
  static absl::StatusOr<ArtifactView> ParseBytes(absl::string_view bytes,
                                                 const TrustPolicy& trust,
                                                 const DeviceTraits& device);

  const Plan& plan() const { return *plan_; }
  // Object code, in module order. Views on bytes this keeps alive.
  const std::vector<absl::string_view>& images() const { return images_; }
  // What the artifact relies on beyond the metas of its inputs.
  const std::vector<PlanGuard>& guards() const { return guards_; }
  // Digest of inputs, results and mutations: a hot swap needs an equal one.
  const std::string& interface_digest() const { return interface_digest_; }
  const std::string& compile_key() const { return compile_key_; }
  bool is_signed() const { return is_signed_; }
  // What its signer vouches for.
  const std::string& cache_namespace() const { return cache_namespace_; }
  // Of the request that it answers; 32 bytes, or none in what tests make.
  const std::string& request_digest() const;
  // The message itself, for those that show it (counters, sources).
  const wire::Artifact& message() const { return *artifact_; }

 private:
  std::shared_ptr<const wire::Artifact> artifact_;
  std::shared_ptr<const Plan> plan_;
  std::vector<absl::string_view> images_;
  std::vector<PlanGuard> guards_;
  std::string interface_digest_;
  std::string compile_key_;
  bool is_signed_ = false;
  std::string cache_namespace_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_ARTIFACT_VIEW_H_

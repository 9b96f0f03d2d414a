#include "client/artifact_bundle.h"

#include <climits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/version.h"
#include "proto/artifact_bundle.pb.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The last character is the format's number.
constexpr absl::string_view kMark = "KILNBND2";
constexpr size_t kHeaderBytes = kMark.size() + Digest::kBytes;

absl::Status Corrupt(absl::string_view what) {
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("bundle: ", what));
}

Digest DigestOf(absl::string_view payload) {
  return Sha256().Add(payload).Finish();
}

}  // namespace

std::string WriteBundle(const std::vector<wire::SignedArtifact>& artifacts) {
  wire::ArtifactBundle bundle;
  bundle.set_version(kVersion);
  for (const wire::SignedArtifact& artifact : artifacts) {
    *bundle.add_artifacts() = artifact;
  }
  const std::string payload = bundle.SerializeAsString();
  return absl::StrCat(kMark, DigestOf(payload).bytes(), payload);
}

absl::StatusOr<std::vector<wire::SignedArtifact>> ReadBundle(
    absl::string_view bytes) {
  const size_t known = kMark.size() - 1;
  if (bytes.size() < kHeaderBytes ||
      bytes.substr(0, known) != kMark.substr(0, known)) {
    return Corrupt(
        absl::StrCat("found ", bytes.size(),
                     " bytes that are not a saved bundle (bad magic)"));
  }
  if (bytes[known] != kMark[known]) {
    return MakeError(ErrorReason::kArtifactIncompatible,
                     absl::StrCat("bundle: format ", bytes.substr(known, 1),
                                  ", expected ", kMark.substr(known)));
  }
  const absl::string_view payload = bytes.substr(kHeaderBytes);
  if (bytes.substr(kMark.size(), Digest::kBytes) != DigestOf(payload).bytes()) {
    return Corrupt("it was cut short or changed (its SHA-256 does not match)");
  }
  wire::ArtifactBundle bundle;
  if (payload.size() > INT_MAX ||
      !bundle.ParseFromArray(payload.data(),
                             static_cast<int>(payload.size()))) {
    return Corrupt("no ArtifactBundle message");
  }
  if (bundle.version() != kVersion) {
    return MakeError(ErrorReason::kArtifactIncompatible,
                     absl::StrCat("bundle: found version ", bundle.version(),
                                  ", expected ", kVersion));
  }
  return std::vector<wire::SignedArtifact>(
      std::make_move_iterator(bundle.mutable_artifacts()->begin()),
      std::make_move_iterator(bundle.mutable_artifacts()->end()));
}

}  // namespace kiln

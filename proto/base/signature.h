#ifndef KILN_PROTO_BASE_SIGNATURE_H_
#define KILN_PROTO_BASE_SIGNATURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"

namespace kiln {

// Ed25519 signatures (OpenSSL) over `prefix` + the SHA-256 of the bytes. The
// prefix says what kind of thing is vouched for, so that a signature of one
// kind is worthless as another.
inline constexpr absl::string_view kArtifactSigningPrefix = "kiln artifact 2\n";
inline constexpr absl::string_view kRecordSigningPrefix = "kiln record 2\n";

inline constexpr int kSignatureBytes = 64;
inline constexpr int kKeyIdBytes = 8;

// Half of a key pair that everybody may know. A value.
class PublicKey {
 public:
  static constexpr int kBytes = 32;

  // INVALID_ARGUMENT unless `raw` is 32 bytes.
  static absl::StatusOr<PublicKey> FromBytes(absl::string_view raw);

  const std::string& bytes() const { return bytes_; }
  // First 8 bytes of the SHA-256 of the public key.
  const std::string& key_id() const { return key_id_; }

  // OK when the key's owner signed these bytes under this prefix.
  // PERMISSION_DENIED ARTIFACT_UNTRUSTED otherwise.
  absl::Status Verify(absl::string_view prefix, const Digest& sha256_of_bytes,
                      absl::string_view signature) const;
  absl::Status Verify(absl::string_view prefix, absl::string_view bytes,
                      absl::string_view signature) const;

  friend bool operator==(const PublicKey& a, const PublicKey& b) {
    return a.bytes_ == b.bytes_;
  }

 private:
  explicit PublicKey(std::string bytes);
  std::string bytes_;
  std::string key_id_;
};

// The secret half. A value; its bytes go nowhere but a file of mode 0600.
class SigningKey {
 public:
  static constexpr int kBytes = 32;

  // A new key from the system's random numbers. INTERNAL when it has none.
  static absl::StatusOr<SigningKey> Generate();
  // INVALID_ARGUMENT unless `raw` is 32 bytes.
  static absl::StatusOr<SigningKey> FromBytes(absl::string_view raw);

  const std::string& secret_bytes() const { return secret_; }
  const PublicKey& public_key() const { return public_; }

  // 64 bytes. Deterministic: equal arguments, equal signatures.
  std::string Sign(absl::string_view prefix,
                   const Digest& sha256_of_bytes) const;
  std::string Sign(absl::string_view prefix, absl::string_view bytes) const;

 private:
  SigningKey(std::string secret, PublicKey public_key);
  std::string secret_;
  PublicKey public_;
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_SIGNATURE_H_

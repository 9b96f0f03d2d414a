#include "proto/base/signature.h"

#include <openssl/evp.h>

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct FreePkey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Pkey = std::unique_ptr<EVP_PKEY, FreePkey>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

const unsigned char* Raw(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Pkey PrivatePkey(absl::string_view secret) {
  return Pkey(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                           Raw(secret), secret.size()));
}

std::string Message(absl::string_view prefix, const Digest& digest) {
  return absl::StrCat(prefix, digest.bytes());
}

}  // namespace

PublicKey::PublicKey(std::string bytes)
    : bytes_(std::move(bytes)),
      key_id_(Sha256Of(bytes_).bytes().substr(0, kKeyIdBytes)) {}

absl::StatusOr<PublicKey> PublicKey::FromBytes(absl::string_view raw) {
  if (raw.size() != kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("public key: ", raw.size(), " bytes, must be ", kBytes));
  }
  return PublicKey(std::string(raw));
}

absl::Status PublicKey::Verify(absl::string_view prefix,
                               const Digest& sha256_of_bytes,
                               absl::string_view signature) const {
  const Pkey key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                             Raw(bytes_), bytes_.size()));
  const Context context(EVP_MD_CTX_new());
  const std::string message = Message(prefix, sha256_of_bytes);
  const bool good =
      key != nullptr && signature.size() == kSignatureBytes &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr,
                           key.get()) == 1 &&
      EVP_DigestVerify(context.get(), Raw(signature), signature.size(),
                       Raw(message), message.size()) == 1;
  if (good) return absl::OkStatus();
  return MakeError(ErrorReason::kArtifactUntrusted,
                   absl::StrCat("signature: does not match key ",
                                absl::BytesToHexString(key_id_)));
}

absl::Status PublicKey::Verify(absl::string_view prefix,
                               absl::string_view bytes,
                               absl::string_view signature) const {
  return Verify(prefix, Sha256Of(bytes), signature);
}

SigningKey::SigningKey(std::string secret, PublicKey public_key)
    : secret_(std::move(secret)), public_(std::move(public_key)) {}

absl::StatusOr<SigningKey> SigningKey::FromBytes(absl::string_view raw) {
  if (raw.size() != kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("signing key: ", raw.size(), " bytes, must be ", kBytes));
  }
  const Pkey key = PrivatePkey(raw);
  std::string public_bytes(PublicKey::kBytes, '\0');
  size_t length = public_bytes.size();
  if (key == nullptr ||
      EVP_PKEY_get_raw_public_key(
          key.get(), reinterpret_cast<unsigned char*>(public_bytes.data()),
          &length) != 1) {
    return absl::InternalError("signing key: OpenSSL has no Ed25519");
  }
  ASSIGN_OR_RETURN(PublicKey public_key, PublicKey::FromBytes(public_bytes));
  return SigningKey(std::string(raw), std::move(public_key));
}

absl::StatusOr<SigningKey> SigningKey::Generate() {
  const Pkey key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  std::string secret(kBytes, '\0');
  size_t length = secret.size();
  if (key == nullptr ||
      EVP_PKEY_get_raw_private_key(
          key.get(), reinterpret_cast<unsigned char*>(secret.data()),
          &length) != 1) {
    return absl::InternalError("signing key: OpenSSL could not generate one");
  }
  return FromBytes(secret);
}

std::string SigningKey::Sign(absl::string_view prefix,
                             const Digest& sha256_of_bytes) const {
  const Pkey key = PrivatePkey(secret_);
  const Context context(EVP_MD_CTX_new());
  const std::string message = Message(prefix, sha256_of_bytes);
  std::string signature(kSignatureBytes, '\0');
  size_t length = signature.size();
  EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get());
  EVP_DigestSign(context.get(),
                 reinterpret_cast<unsigned char*>(signature.data()), &length,
                 Raw(message), message.size());
  return signature;
}

std::string SigningKey::Sign(absl::string_view prefix,
                             absl::string_view bytes) const {
  return Sign(prefix, Sha256Of(bytes));
}

}  // namespace kiln

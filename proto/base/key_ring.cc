#include "proto/base/key_ring.h"

#include <utility>

namespace kiln {

KeyRing::KeyRing(SigningKey own, const TrustedKeys& others) {
  auto trusted = std::make_shared<TrustedKeys>(others);
  trusted->Add(own.public_key());
  trusted_ = std::move(trusted);
  signers_[""] = std::make_shared<const SigningKey>(std::move(own));
}

std::shared_ptr<const SigningKey> KeyRing::SignerOf(
    absl::string_view cache_namespace) const {
  MutexLock lock(&mu_);
  const auto own = signers_.find(cache_namespace);
  return own != signers_.end() ? own->second : signers_.find("")->second;
}

std::shared_ptr<const TrustedKeys> KeyRing::trusted() const {
  MutexLock lock(&mu_);
  return trusted_;
}

void KeyRing::SetSigner(absl::string_view cache_namespace, SigningKey key) {
  auto signer = std::make_shared<const SigningKey>(std::move(key));
  MutexLock lock(&mu_);
  auto trusted = std::make_shared<TrustedKeys>(*trusted_);
  trusted->Add(signer->public_key(), cache_namespace);
  trusted_ = std::move(trusted);
  signers_[std::string(cache_namespace)] = std::move(signer);
}

void KeyRing::Revoke(absl::string_view key_id) {
  MutexLock lock(&mu_);
  auto trusted = std::make_shared<TrustedKeys>(*trusted_);
  trusted->Revoke(key_id);
  trusted_ = std::move(trusted);
}

}  // namespace kiln

#include "proto/base/digest.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/escaping.h"

namespace kiln {

std::optional<Digest> Digest::FromBytes(absl::string_view raw) {
  if (raw.size() != kBytes) return std::nullopt;
  Digest digest;
  std::copy(raw.begin(), raw.end(), digest.bytes_.begin());
  return digest;
}

std::optional<Digest> Digest::FromHex(absl::string_view hex) {
  if (hex.size() != 2 * kBytes) return std::nullopt;
  const bool digits = std::all_of(hex.begin(), hex.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
           (c >= 'A' && c <= 'F');
  });
  if (!digits) return std::nullopt;
  return FromBytes(absl::HexStringToBytes(hex));
}

std::string Digest::Hex() const { return absl::BytesToHexString(bytes()); }

namespace {

// Found once: of EVP_sha256() each digest would look for it anew.
const EVP_MD* Algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

// Two texts with one digest would be served for each other: rather an end than that.
void Expect(bool done) {
  if (done) return;
  std::fputs(
      "kiln: OpenSSL gives no SHA-256: no provider has it, or memory is out\n",
      stderr);
  std::abort();
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  // Small pieces are gathered: a call of OpenSSL takes longer than eight bytes do.
  char pending[256];
  size_t used = 0;

  void Pass(absl::string_view bytes) {
    Expect(EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1);
  }
  void Flush() {
    Pass({pending, used});
    used = 0;
  }
};

Sha256::Sha256() : state_(new State) {
  Expect(Algorithm() != nullptr && state_->context != nullptr &&
         EVP_DigestInit_ex(state_->context, Algorithm(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(state_->context); }

Sha256& Sha256::Add(absl::string_view bytes) {
  State& s = *state_;
  if (bytes.size() > sizeof(s.pending) - s.used) s.Flush();
  if (bytes.size() > sizeof(s.pending)) {
    s.Pass(bytes);
    return *this;
  }
  if (!bytes.empty())
    std::memcpy(s.pending + s.used, bytes.data(), bytes.size());
  s.used += bytes.size();
  return *this;
}

Sha256& Sha256::AddField(absl::string_view bytes) {
  return AddNumber(bytes.size()).Add(bytes);
}

Sha256& Sha256::AddNumber(uint64_t number) {
  char raw[8];
  for (int i = 0; i < 8; ++i) raw[i] = static_cast<char>(number >> (8 * i));
  return Add({raw, sizeof(raw)});
}

Digest Sha256::Finish() {
  state_->Flush();
  Digest digest;
  unsigned int length = 0;
  Expect(EVP_DigestFinal_ex(state_->context, digest.bytes_.data(), &length) ==
         1);
  return digest;
}

Digest Sha256Of(absl::string_view bytes) {
  return Sha256().Add(bytes).Finish();
}

uint64_t Xxh3_64(absl::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace kiln

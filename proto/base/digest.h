#ifndef KILN_PROTO_BASE_DIGEST_H_
#define KILN_PROTO_BASE_DIGEST_H_

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// A SHA-256: what keys, units and artifacts are named by. A value.
class Digest {
 public:
  static constexpr int kBytes = 32;

  Digest() : bytes_{} {}

  // Empty unless `raw` has exactly 32 bytes.
  static std::optional<Digest> FromBytes(absl::string_view raw);
  // Empty unless `hex` has exactly 64 digits of either case.
  static std::optional<Digest> FromHex(absl::string_view hex);

  absl::string_view bytes() const {
    return {reinterpret_cast<const char*>(bytes_.data()), kBytes};
  }
  std::string ToBytes() const { return std::string(bytes()); }
  std::string Hex() const;
  // The first six digits: enough for logs and tables.
  std::string ShortHex() const { return Hex().substr(0, 6); }
  bool is_zero() const { return *this == Digest(); }

  friend auto operator<=>(const Digest&, const Digest&) = default;
  friend bool operator==(const Digest&, const Digest&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Digest& d) {
    return H::combine(std::move(h), d.bytes_);
  }

 private:
  friend class Sha256;
  std::array<uint8_t, kBytes> bytes_;
};

// Builds a Digest piece by piece (OpenSSL). One thread; used once: after
// Finish the object is spent. Ends the process where OpenSSL has no SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  // Plain bytes, with no mark of where one piece ends.
  Sha256& Add(absl::string_view bytes);
  // The length as eight bytes, little-endian, then the bytes: use this where
  // several fields follow one another, so that no two lists of fields meet.
  Sha256& AddField(absl::string_view bytes);
  Sha256& AddNumber(uint64_t number);  // eight bytes, little-endian

  Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest Sha256Of(absl::string_view bytes);

// XXH3, 64 bits, seed 0: against accidents, not against enemies.
uint64_t Xxh3_64(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_DIGEST_H_

#ifndef KILN_CACHE_ENTRY_FORMAT_H_
#define KILN_CACHE_ENTRY_FORMAT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"
#include "proto/base/signature.h"
#include "proto/base/trusted_keys.h"

namespace kiln {

// A record as it lies in a store. Integers are little-endian.
//
//   magic      u32   0x524e4c4b ("KLNR")
//   version    u32   kRecordVersion
//   length     u64   bytes of payload; the record ends 72 bytes after it
//   xxh3       u64   XXH3-64 of magic, version, length, key and payload
//   key        32    what it is stored under: a record does not move
//   payload
//   signature  64    Ed25519 over kRecordSigningPrefix + the SHA-256 of all
//                    bytes before it
//   key_id     8     whose signature
//
// Any one flipped bit, a cut, an added byte, another key or signer: refused. The
// fields up to the payload mean the same in every version, so that a record of
// another build is told from a damaged one and can be left alone.
inline constexpr uint32_t kRecordVersion = 2;

std::string SealRecord(const Digest& key, absl::string_view payload,
                       const SigningKey& signer);

// The payload of a sound record.
//
// Errors:
//   DATA_LOSS           ARTIFACT_CORRUPT    magic, length, checksum, or it
//                                           belongs to another key
//   FAILED_PRECONDITION ARTIFACT_INCOMPATIBLE  a whole record of another version
//   PERMISSION_DENIED   ARTIFACT_UNTRUSTED  a signer that is not in `trusted`,
//                                           or a wrong signature
//
// Of a signer it asks only that it counts somewhere: in which namespace is asked
// by whoever knows the payload (SignerOfRecord).
absl::StatusOr<std::string> OpenRecord(const Digest& key,
                                       absl::string_view record,
                                       const TrustedKeys& trusted);

// Of a record that OpenRecord took: the id of the key that signed it.
absl::string_view SignerOfRecord(absl::string_view record);

}  // namespace kiln

#endif  // KILN_CACHE_ENTRY_FORMAT_H_

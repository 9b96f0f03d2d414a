#ifndef KILN_CACHE_COMPILE_KEY_H_
#define KILN_CACHE_COMPILE_KEY_H_

#include <string>
#include <vector>

#include "proto/base/digest.h"
#include "proto/key/request_digest.h"

namespace kiln {

// Who would compile: two builds never share artifacts.
struct BuildIdentity {
  Digest worker;               // of the worker's binary
  Digest toolchain;            // of the compilers' names and versions
  std::string worker_text;     // "kiln-worker 0.1 5f0c12", for people
  std::string toolchain_text;  // "g++ 12.2.0, nvrtc 13.0"
};

// What decides the bytes of an artifact, part by named part: the request's
// parts (proto/key/request_digest.h), then `worker` and `toolchain`. Guards and
// tuning decisions stand with the entries (tuning_match.h says why). Two requests with equal keys get the same artifact, so a missing part is a wrong
// answer to a stranger, and a part too many is a slow one.
struct CompileKey {
  std::vector<KeyPart> parts;
  Digest digest;

  std::string ShortHex() const { return digest.ShortHex(); }
};

// The digest alone, from the total of a request's digest: what Lookup has.
Digest CompileKeyDigest(const Digest& request_total,
                        const BuildIdentity& build);

// MakeCompileKey(r, b).digest == CompileKeyDigest(r.total, b).
CompileKey MakeCompileKey(const RequestDigest& request,
                          const BuildIdentity& build);

// The first part in which two keys differ, with both texts.
struct KeyDifference {
  std::string part;    // empty: equal keys
  std::string detail;  // "options: max_fusion_size: 8 against (none)"
  int parts_equal = 0;
};

// Compares part by part, in order. A part that only one key has differs.
KeyDifference DiffKeys(const std::vector<KeyPart>& a,
                       const std::vector<KeyPart>& b);

}  // namespace kiln

#endif  // KILN_CACHE_COMPILE_KEY_H_

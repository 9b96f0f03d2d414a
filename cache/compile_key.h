#ifndef KILN_CACHE_COMPILE_KEY_H_
#define KILN_CACHE_COMPILE_KEY_H_

#include <optional>
#include <string>
#include <vector>

#include "proto/artifact.pb.h"
#include "proto/base/digest.h"
#include "proto/key/request_digest.h"

namespace kiln {

// Who would compile: two builds never share artifacts.
struct BuildIdentity {
  Digest compiler;            // of the compiler's sources
  std::string compiler_text;  // "kiln-worker 5f0c12", for people
  // The compilers that code for a target is built with, with their versions:
  // "g++ 12.2.0" and "nvrtc NVRTC 13.0"; "none" where there is none.
  std::string cpu_toolchain;
  std::string cuda_toolchain;

  const std::string& ToolchainFor(const wire::Target& target) const {
    return target.has_cuda() ? cuda_toolchain : cpu_toolchain;
  }
};

// What decides the bytes of an artifact, part by named part: the request's
// parts (proto/key/request_digest.h), then `compiler` and `toolchain`, the one
// of the request's target. Guards and tuning decisions stand with the entries
// (tuning_match.h says why). Two requests with equal keys get the same artifact:
// a missing part is a wrong answer to a stranger, a part too many a slow one.
struct CompileKey {
  std::vector<KeyPart> parts;
  Digest digest;

  std::string ShortHex() const { return digest.ShortHex(); }
};

// The digest alone, from the total of a request's digest: what Lookup has.
Digest CompileKeyDigest(const Digest& request_total, const BuildIdentity& build,
                        const wire::Target& target);

// MakeCompileKey(r, b, t).digest == CompileKeyDigest(r.total, b, t). `target`
// is the request's.
CompileKey MakeCompileKey(const RequestDigest& request,
                          const BuildIdentity& build,
                          const wire::Target& target);

// The digest of the key that has these parts. Empty where no key has them: the
// last two are not `compiler` and `toolchain`, or the text of the latter, which
// is never cut, is another's.
std::optional<Digest> DigestOfParts(const std::vector<KeyPart>& parts);

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

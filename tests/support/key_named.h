#ifndef KILN_TESTS_SUPPORT_KEY_NAMED_H_
#define KILN_TESTS_SUPPORT_KEY_NAMED_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/compile_key.h"

namespace kiln {

// The key of a request whose graph has that name, so to speak: with all the parts
// that a key has, and their digest.
inline CompileKey KeyNamed(absl::string_view name,
                           absl::string_view cache_namespace = "",
                           absl::string_view compiler = "a compiler") {
  RequestDigest request;
  request.parts = {
      {"schema", Sha256Of(kKeySchema), std::string(kKeySchema)},
      {"namespace", Sha256Of(cache_namespace), std::string(cache_namespace)},
      {"graph", Sha256Of(name), std::string(name)}};
  request.total = TotalOf(request.parts);
  const BuildIdentity build = {Sha256Of(compiler), std::string(compiler),
                               "g++ 12", "nvrtc 13"};
  wire::Target target;
  target.mutable_cpu()->set_level("x86-64");
  return MakeCompileKey(request, build, target);
}

// The digest alone.
inline Digest KeyOfName(absl::string_view name,
                        absl::string_view cache_namespace = "") {
  return KeyNamed(name, cache_namespace).digest;
}

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_KEY_NAMED_H_

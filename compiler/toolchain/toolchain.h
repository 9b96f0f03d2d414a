#ifndef KILN_COMPILER_TOOLCHAIN_TOOLCHAIN_H_
#define KILN_COMPILER_TOOLCHAIN_TOOLCHAIN_H_

// Turns the source of one translation unit into object code.
//
// Equal sources and flags give equal bytes on one toolchain version, in any
// process, working directory and locale: artifacts depend on it.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/config/target.h"

namespace kiln {

struct BuiltObject {
  std::string image;  // a shared object, or a cubin
  std::string log;    // the compiler's warnings; empty for our own sources
  // The CUDA version that a driver must at least run to load it, as 13000; 0:
  // no driver is needed.
  uint32_t least_driver_cuda_version = 0;
};

class Toolchain {
 public:
  virtual ~Toolchain() = default;

  virtual absl::string_view name() const = 0;  // "g++", "clang++", "nvrtc"

  // What the toolchain says of itself, in one line. Finds and loads it when
  // that has not been done. NO_TOOLCHAIN says what to type.
  virtual absl::StatusOr<std::string> Version() = 0;

  // The program or library that is used. Call it after Version; "" if that failed.
  virtual std::string path() const = 0;

  // True once Build would run another compiler than Version named: it was
  // replaced, removed or installed since. The key of what is built names the
  // version, so a worker ends then, and the next one names the new version.
  virtual bool Replaced() { return false; }

  // Errors:
  //   FAILED_PRECONDITION NO_TOOLCHAIN      not on this machine; what to type
  //   INTERNAL            TOOLCHAIN_REJECTED with the compiler's words
  //   UNAVAILABLE         STORAGE           the scratch folder can't be written,
  //                                         or its disk is full
  virtual absl::StatusOr<BuiltObject> Build(
      absl::string_view source, absl::Span<const std::string> flags) = 0;
};

// The flags that decide the object code of a unit for `target`, in the dialect
// of NVRTC or of g++ and clang++. They are part of a unit's digest. What only
// concerns the call (paths, output) is the toolchain's own. Pure.
//
// Semantics rest on them: no contraction of a product and a sum where eager
// PyTorch has none (facts: ops 6.2), NaN, infinities and denormals kept.
std::vector<std::string> UnitFlags(const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_TOOLCHAIN_TOOLCHAIN_H_

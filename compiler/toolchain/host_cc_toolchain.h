#ifndef KILN_COMPILER_TOOLCHAIN_HOST_CC_TOOLCHAIN_H_
#define KILN_COMPILER_TOOLCHAIN_HOST_CC_TOOLCHAIN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/toolchain/toolchain.h"

namespace kiln {

struct HostCcConfig {
  // A compiler to use and no other; empty: the first of g++, clang++,
  // clang++-14 in `search_path`.
  std::string compiler;
  // Folders to look in, separated by ':', as in PATH.
  std::string search_path = "/usr/local/bin:/usr/bin:/bin";
  // An existing folder for one object at a time. The name of a file in it
  // never reaches the object.
  std::string scratch_dir;
  // A compiler that fails while its disk has less free than this failed for
  // want of room; some megabytes are what one unit's files take. Too high: an
  // error of ours is taken for a full disk.
  int64_t least_free_bytes = int64_t{4} << 20;
};

// Builds shared objects with the machine's g++ or clang++, one child process a
// unit, source through a pipe. The child gets no descriptor but its own three
// and an environment of PATH, TMPDIR and LC_ALL=C. One thread at a time.
std::unique_ptr<Toolchain> MakeHostCcToolchain(HostCcConfig config);

}  // namespace kiln

#endif  // KILN_COMPILER_TOOLCHAIN_HOST_CC_TOOLCHAIN_H_

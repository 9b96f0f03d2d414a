#ifndef KILN_PROTO_JAIL_COMPILER_FOLDERS_H_
#define KILN_PROTO_JAIL_COMPILER_FOLDERS_H_

#include <string>
#include <vector>

namespace kiln {

// The absolute folders of compilers and libraries that a worker's environment
// ("NAME=value") names: those of KILN_NVRTC, KILN_CUDA_LIBRARY_PATH and
// LD_LIBRARY_PATH, and where KILN_HOST_CC was installed. Pure.
std::vector<std::string> CompilerFolders(const std::vector<std::string>& env);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_COMPILER_FOLDERS_H_

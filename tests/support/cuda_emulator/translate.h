#ifndef KILN_TESTS_SUPPORT_CUDA_EMULATOR_TRANSLATE_H_
#define KILN_TESTS_SUPPORT_CUDA_EMULATOR_TRANSLATE_H_

#include <string>

namespace kiln_emulator {

// A CUDA source as C++ for g++, device_side.h to be put in front of it: each asm
// statement becomes a call of the function named as its first instruction, arrays
// of dynamic shared memory become pointers, and each kernel K gets two exported
// symbols, `void kiln_emulator_call_K(void** parameters)` and
// `int kiln_emulator_cluster_K`, the number of blocks in a cluster.
std::string TranslateToHost(const std::string& source);

}  // namespace kiln_emulator

#endif  // KILN_TESTS_SUPPORT_CUDA_EMULATOR_TRANSLATE_H_

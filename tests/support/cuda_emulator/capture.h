#ifndef KILN_TESTS_SUPPORT_CUDA_EMULATOR_CAPTURE_H_
#define KILN_TESTS_SUPPORT_CUDA_EMULATOR_CAPTURE_H_

#include <functional>

namespace kiln_emulator {

// One piece of a stream's work; gives the driver's code.
using Work = std::function<int()>;

// Does the work, or keeps it where the stream is in a capture. What the work
// reads it has copied: arguments are those of now.
int Put(void* stream, Work work);

// Whether what is put on the stream is kept.
bool IsCapturing(void* stream);

}  // namespace kiln_emulator

#endif  // KILN_TESTS_SUPPORT_CUDA_EMULATOR_CAPTURE_H_

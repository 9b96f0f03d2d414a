#ifndef KILN_COMPILER_KEEP_FREED_MEMORY_H_
#define KILN_COMPILER_KEEP_FREED_MEMORY_H_

namespace kiln {

// Lets this process keep up to 64 MiB of freed memory, so that the next plan or build
// does not ask the kernel for each page again. Call it once, before threads start.
void KeepFreedMemory();

}  // namespace kiln

#endif  // KILN_COMPILER_KEEP_FREED_MEMORY_H_

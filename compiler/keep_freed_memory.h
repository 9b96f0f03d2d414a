#ifndef KILN_COMPILER_KEEP_FREED_MEMORY_H_
#define KILN_COMPILER_KEEP_FREED_MEMORY_H_

namespace kiln {

// Of a process that plans graph after graph: up to 64 MiB of freed memory stay
// with it, so that the next plan does not ask the kernel for each page again. To be
// called once, before threads start.
void KeepFreedMemory();

}  // namespace kiln

#endif  // KILN_COMPILER_KEEP_FREED_MEMORY_H_

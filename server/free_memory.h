#ifndef KILN_SERVER_FREE_MEMORY_H_
#define KILN_SERVER_FREE_MEMORY_H_

#include <cstdint>

namespace kiln {

// Gives the machine back what malloc holds and nobody uses: after a flood of calls it
// keeps as much as they took, however little is left of them. Returns by how many bytes
// the process became smaller. Costs milliseconds for gigabytes.
int64_t ReturnFreeMemory();

}  // namespace kiln

#endif  // KILN_SERVER_FREE_MEMORY_H_

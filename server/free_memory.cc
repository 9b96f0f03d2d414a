#include "server/free_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace kiln {
namespace {

// As /proc has it; 0 when it cannot be read.
int64_t ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  in >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t ReturnFreeMemory() {
  const int64_t before = ResidentBytes();
  malloc_trim(0);
  return std::max<int64_t>(0, before - ResidentBytes());
}

}  // namespace kiln

#include "proto/jail/own_memory.h"

#include <sys/prctl.h>
#include <sys/resource.h>

namespace kiln {

void KeepMemoryToItself() {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Where core files go to a program, the first alone does not bind it.
  const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &none);
}

}  // namespace kiln

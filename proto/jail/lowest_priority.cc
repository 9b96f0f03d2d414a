#include "proto/jail/lowest_priority.h"

#include <sched.h>
#include <sys/resource.h>

namespace kiln {
namespace {

constexpr int kLowestNice = 19;

void LeaveCoresFree() {
  cpu_set_t cores;
  // Where there are more cores than the set has room for, all run workers.
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  int left_free = CoresWithoutWorkers(CPU_COUNT(&cores));
  for (int core = 0; left_free > 0; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    CPU_CLR(core, &cores);
    --left_free;
  }
  sched_setaffinity(0, sizeof(cores), &cores);
}

}  // namespace

int CoresWithoutWorkers(int cores) { return cores / 8; }

void TakeLowestPriority() {
  static bool is_taken = false;
  if (is_taken) return;
  is_taken = true;
  // Best effort: a machine may forbid changes of priority altogether.
  const sched_param none = {};
  setpriority(PRIO_PROCESS, 0, kLowestNice);
  sched_setscheduler(0, SCHED_BATCH, &none);
  LeaveCoresFree();
}

}  // namespace kiln

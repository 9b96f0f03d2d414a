#ifndef KILN_PROTO_JAIL_BE_IDLE_H_
#define KILN_PROTO_JAIL_BE_IDLE_H_

namespace kiln {

// How many of `cores` run no worker: an eighth, rounded down. A core that runs a
// worker, if only in its idle time, does not take over what waits for other cores.
// One that has nothing to do does.
int CoresWithoutWorkers(int cores);

// Idle priority, and no work on the first CoresWithoutWorkers of the cores that this
// process may use, where the machine grants it. For the one thread of a worker:
// threads and processes that it starts afterwards inherit it, and nobody in a jail
// comes back from it. Once a process; a second call does nothing.
//
// The jail calls it for a worker before it returns, but for one of a daemon's first,
// whose hello the daemon's start waits for: that one calls it when its hello is out
// and before it reads a job (JailSpec::idle_after_hello).
void BeIdle();

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_BE_IDLE_H_

#ifndef KILN_PROTO_JAIL_LOWEST_PRIORITY_H_
#define KILN_PROTO_JAIL_LOWEST_PRIORITY_H_

namespace kiln {

// How many of `cores` run no worker: an eighth, rounded down. A core that runs a
// worker does not take over what waits for other cores. One that has nothing to do
// does.
int CoresWithoutWorkers(int cores);

// Nice 19 and SCHED_BATCH, and no work on the first CoresWithoutWorkers of the cores
// that this process may use, where the machine grants it. For the one thread of a
// worker: threads and processes that it starts afterwards inherit it, and nobody in a
// jail comes back from it. Once a process; a second call does nothing.
//
// Not SCHED_IDLE. The kernel takes a core that runs nothing else for an idle one, and
// puts threads that wake there, while others have nothing to do: on 16 cores the 99th
// percentile of hits was 5 times as long beside workers of that policy, 1.1 to 1.3
// times beside workers of this one (bench/records/box.md). SCHED_BATCH never takes a core
// from who runs on it.
//
// The jail calls it for a worker before it returns, but for one of a daemon's first,
// whose hello the daemon's start waits for: that one calls it when its hello is out
// and before it reads a job (JailSpec::lowest_after_hello).
void TakeLowestPriority();

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_LOWEST_PRIORITY_H_

#ifndef KILN_SERVER_TUNE_FLOW_H_
#define KILN_SERVER_TUNE_FLOW_H_

#include "absl/status/statusor.h"
#include "cache/tuning_cache.h"
#include "proto/admin_service.pb.h"
#include "server/counters.h"
#include "server/worker_pool.h"

namespace kiln {

// Has workers measure the kernels of a graph, one key after another so that no
// measurement disturbs another one, and keeps each winner as it comes: plans
// made from then on for that target use it, and entries that were made without
// it, of graphs that meet its key, are served no more. Blocks until all are
// measured.
//
// Errors:
//   INVALID_ARGUMENT BAD_TARGET  no target
//   FAILED_PRECONDITION NO_DEVICE  the workers' machine has none such
//   and those of MakeTask, of planning and of PendingWork::Wait
absl::StatusOr<wire::TuneReply> TuneGraph(const wire::TuneRequest& request,
                                          WorkerPool& pool, TuningCache& tuning,
                                          Counters& counters);

}  // namespace kiln

#endif  // KILN_SERVER_TUNE_FLOW_H_

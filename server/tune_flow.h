#ifndef KILN_SERVER_TUNE_FLOW_H_
#define KILN_SERVER_TUNE_FLOW_H_

#include "absl/status/statusor.h"
#include "cache/tuning_cache.h"
#include "proto/admin_service.pb.h"
#include "server/counters.h"
#include "server/worker_pool.h"

namespace kiln {

// Has one worker measure the variants of a row reduction and keeps the winner:
// plans made from now on for that target use it, and entries that were made
// without it, of graphs that meet its row, are served no more.
// Blocks while a worker measures.
//
// Errors:
//   INVALID_ARGUMENT BAD_OPTION  rows or columns below 1 or 2^40 elements, a
//                                dtype that is not computed with
//   INVALID_ARGUMENT BAD_TARGET  no target
//   FAILED_PRECONDITION NO_DEVICE  the workers' machine has none such
//   and those of PendingWork::Wait
absl::StatusOr<wire::TuneReply> TuneRow(const wire::TuneRequest& request,
                                        WorkerPool& pool, TuningCache& tuning,
                                        Counters& counters);

}  // namespace kiln

#endif  // KILN_SERVER_TUNE_FLOW_H_

#ifndef KILN_PROTO_BASE_GRPC_DEADLINE_H_
#define KILN_PROTO_BASE_GRPC_DEADLINE_H_

#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "proto/base/steady_time.h"

namespace kiln {

// A deadline as gRPC takes it, on its monotonic clock. Its C++ interface offers
// the wall's clock first, which somebody may set while a call goes on.
inline gpr_timespec ToGrpcDeadline(SteadyTime deadline) {
  if (deadline == kNever) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(TimeLeft(deadline)),
                          GPR_TIMESPAN));
}

// The deadline that gRPC tells of a call.
inline SteadyTime FromGrpcDeadline(gpr_timespec deadline) {
  const gpr_timespec end = gpr_inf_future(deadline.clock_type);
  if (gpr_time_cmp(deadline, end) == 0) return kNever;
  const gpr_timespec left =
      gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return SteadyIn(absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec));
}

}  // namespace kiln

#endif  // KILN_PROTO_BASE_GRPC_DEADLINE_H_

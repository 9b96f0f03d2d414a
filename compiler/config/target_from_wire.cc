#include "compiler/config/target_from_wire.h"

#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<Target> TargetFromWire(const wire::Target& wire) {
  switch (wire.kind_case()) {
    case wire::Target::kCuda:
      return TargetFromName(wire.cuda().arch());
    case wire::Target::kCpu: {
      ASSIGN_OR_RETURN(Target target, TargetFromName(wire.cpu().level()));
      target.avx512_bf16 = wire.cpu().avx512_bf16();
      target.amx_bf16 = wire.cpu().amx_bf16();
      return target;
    }
    case wire::Target::KIND_NOT_SET:
      break;
  }
  return MakeError(ErrorReason::kBadTarget,
                   "target: found none, expected cpu or cuda");
}

}  // namespace kiln

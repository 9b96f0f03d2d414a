#ifndef KILN_RUNTIME_EXTERN_KERNELS_READ_ATTENTION_CALL_H_
#define KILN_RUNTIME_EXTERN_KERNELS_READ_ATTENTION_CALL_H_

#include "absl/status/statusor.h"
#include "runtime/extern_kernels/read_extern_call.h"

namespace kiln {

// ReadExternCall for attention and its backward. Pure.
absl::StatusOr<ExternPart> ReadAttentionCall(const ExternCall& call,
                                             bool backward);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_READ_ATTENTION_CALL_H_

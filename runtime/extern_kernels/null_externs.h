#ifndef KILN_RUNTIME_EXTERN_KERNELS_NULL_EXTERNS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_NULL_EXTERNS_H_

#include <memory>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// The libraries of a null device: take every problem and compute nothing.
inline std::shared_ptr<ExternLibrary> MakeNullExterns() {
  class NullCall final : public PreparedCall {
   public:
    absl::Status Run(const ExternBuffers&, Stream) const override {
      return absl::OkStatus();
    }
    absl::string_view library() const override { return "null"; }
  };
  class NullExterns final : public ExternLibrary {
   public:
    absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
        const ExternProblem&) override {
      return std::make_shared<NullCall>();
    }
  };
  return std::make_shared<NullExterns>();
}

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_NULL_EXTERNS_H_

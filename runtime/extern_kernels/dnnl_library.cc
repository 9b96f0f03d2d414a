#include "runtime/extern_kernels/dnnl_library.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

DnnlLibrary::~DnnlLibrary() {
  if (stream_ != nullptr) dnnl_stream_destroy(stream_);
  if (engine_ != nullptr) dnnl_engine_destroy(engine_);
}

bool DnnlLibrary::has_avx512() const {
  constexpr unsigned kNeeded = dnnl_cpu_isa_avx512_core;
  return (dnnl_get_effective_cpu_isa() & kNeeded) == kNeeded;
}

bool DnnlLibrary::has_avx2_alone() const {
  constexpr unsigned kNeeded = dnnl_cpu_isa_avx2;
  return (dnnl_get_effective_cpu_isa() & kNeeded) == kNeeded && !has_avx512();
}

bool DnnlLibrary::multiplies_bf16() const {
  constexpr unsigned kNeeded = dnnl_cpu_isa_avx512_core_bf16;
  return (dnnl_get_effective_cpu_isa() & kNeeded) == kNeeded;
}

absl::Status DnnlLibrary::Check(dnnl_status_t status, absl::string_view call) {
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_unimplemented) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("oneDNN: ", call, ": unimplemented"));
  }
  return absl::InternalError(
      absl::StrCat("oneDNN: ", call, ": status ", static_cast<int>(status)));
}

absl::Status DnnlLibrary::FindFunctions(const SharedLibrary& library) {
#define KILN_DNNL_FIND(name, how)                                      \
  name = reinterpret_cast<decltype(name)>(library.how(#name));         \
  if (name == nullptr) {                                               \
    return MakeError(ErrorReason::kNoDevice,                           \
                     absl::StrCat(library.path(), ": has no " #name)); \
  }
#define KILN_DNNL_FIND_OWN(name) KILN_DNNL_FIND(name, FindOrNull)
  KILN_DNNL_FUNCTIONS(KILN_DNNL_FIND_OWN)
#undef KILN_DNNL_FIND_OWN
  // Of the libgomp that the library's own calls reach. Beside PyTorch that is
  // PyTorch's, not the one that travels with us.
  KILN_DNNL_FIND(omp_get_max_threads, FindAsCalledWithin)
  KILN_DNNL_FIND(omp_set_num_threads, FindAsCalledWithin)
#undef KILN_DNNL_FIND
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const DnnlLibrary>> DnnlLibrary::Open(
    const std::vector<std::string>& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open({"libdnnl.so.2"}, folders));
  std::shared_ptr<DnnlLibrary> opened(new DnnlLibrary());
  RETURN_IF_ERROR(opened->FindFunctions(library));
  RETURN_IF_ERROR(
      Check(opened->dnnl_engine_create(&opened->engine_, dnnl_cpu, 0),
            "engine_create"));
  RETURN_IF_ERROR(
      Check(opened->dnnl_stream_create(&opened->stream_, opened->engine_,
                                       dnnl_stream_default_flags),
            "stream_create"));
  return std::shared_ptr<const DnnlLibrary>(std::move(opened));
}

}  // namespace kiln

#ifndef KILN_RUNTIME_EXTERN_KERNELS_CPU_EXTERNS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CPU_EXTERNS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// The libraries of a CPU, and who computes what:
//
//   f32            oneDNN; our own loops where it is not on the machine, or has
//                  no kernel for the shape: counted (fallbacks), the first one
//                  logged. An error of oneDNN on what it should take is an
//                  error.
//   bf16           oneDNN where the processor multiplies bf16 and oneDNN takes
//                  the shape; else as f16
//   f16            widened to f32, computed as that, rounded once
//   f64, i64, i32  our own loops, which no library would do
//
// Thread-safe; keeps `device` alive.
//
// `dnnl` may be the error of its opening: then there is none.
std::shared_ptr<ExternLibrary> MakeCpuExternsWith(
    std::shared_ptr<CpuDevice> device,
    absl::StatusOr<std::shared_ptr<const DnnlLibrary>> dnnl);

// `folders` are looked into for libdnnl.so.2 before the loader's own search.
std::shared_ptr<ExternLibrary> MakeCpuExterns(
    std::shared_ptr<CpuDevice> device, const std::vector<std::string>& folders);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CPU_EXTERNS_H_

#ifndef KILN_RUNTIME_EXTERN_KERNELS_CPU_EXTERNS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CPU_EXTERNS_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// The libraries of a CPU, and who computes what:
//
//   f32            oneDNN; our own loops where it is not on the machine, or
//                  refuses the shape
//   bf16           as f32; oneDNN with hardware bf16 is not built
//   f16            as f32
//   f64, i64, i32  our own loops
//
// `folders` are looked into for libdnnl.so.2 before the loader's own search.
// Thread-safe; keeps `device` alive.
std::shared_ptr<ExternLibrary> MakeCpuExterns(
    std::shared_ptr<CpuDevice> device, const std::vector<std::string>& folders);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CPU_EXTERNS_H_

#ifndef KILN_PROTO_JAIL_WORKER_ENVIRONMENT_H_
#define KILN_PROTO_JAIL_WORKER_ENVIRONMENT_H_

namespace kiln {

// What workers are handed of the environment of the program that starts them,
// unless it is told otherwise: what compilers, drivers and their libraries are found
// by.
inline constexpr const char* kWorkerEnvironment[] = {
    "LD_LIBRARY_PATH",        "CUDA_HOME",    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",   "KILN_HOST_CC", "KILN_NVRTC",
    "KILN_CUDA_LIBRARY_PATH",
};

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_WORKER_ENVIRONMENT_H_

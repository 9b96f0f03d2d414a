#ifndef KILN_CLIENT_PYTHON_NATIVE_EMPTY_ON_CUDA_H_
#define KILN_CLIENT_PYTHON_NATIVE_EMPTY_ON_CUDA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* PyTorch's own function for tensors on CUDA that nobody has filled, without the
 * dispatcher's way to it; Inductor's code calls it too. A call of one kernel
 * takes some 0.6 us less than with libtorch's function for AOTInductor
 * (bench/records/h200_torch.md).
 *
 * It is C++, found by its mangled name, which torch 2.9 to 2.15 have alike. */

/* Looks for it in the loaded libtorch_cuda. Whether it is there. */
int kiln_empty_on_cuda_learn(void);

/* A C++ handle, as aoti_torch_empty_strided gives one; NULL when the function
 * threw, for want of memory mostly: refusal.h has its words. `dtype` is
 * libtorch's number. Only when the function is there. Needs no GIL. */
void* kiln_empty_on_cuda(int ordinal, int32_t dtype, int64_t rank,
                         const int64_t* sizes, const int64_t* strides);

#ifdef __cplusplus
}
#endif

#endif /* KILN_CLIENT_PYTHON_NATIVE_EMPTY_ON_CUDA_H_ */

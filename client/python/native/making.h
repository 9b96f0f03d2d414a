#ifndef KILN_CLIENT_PYTHON_NATIVE_MAKING_H_
#define KILN_CLIENT_PYTHON_NATIVE_MAKING_H_

#include <stdint.h>

#include "client/c_api/kiln.h"

/* PyTorch's tensors on CUDA, in C++ and not yet in Python. */

/* Finds libtorch's functions. 0; or -1 with an ImportError. After
 * kiln_reading_learn. Needs the GIL. */
int kiln_making_learn(void);

/* A tensor on that GPU that nobody has filled, as a C++ handle, and the address
 * of its memory; NULL: PyTorch has none. Needs no GIL. */
void* kiln_making_new(int ordinal, KilnDType dtype, int64_t rank,
                      const int64_t* sizes, const int64_t* strides,
                      void** data);

/* Drops a handle. The tensor goes with its last one. Needs no GIL. */
void kiln_making_free(void* tensor);

#endif /* KILN_CLIENT_PYTHON_NATIVE_MAKING_H_ */

#ifndef KILN_CLIENT_PYTHON_NATIVE_TENSORS_H_
#define KILN_CLIENT_PYTHON_NATIVE_TENSORS_H_

/* Python tensors as KilnValues and back, through an exchange table (exchange.h):
 * no framework is linked. All functions need the GIL. */

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"
#include "client/python/native/dlpack_abi.h"

/* Remembers `tensor_class` and its exchange table. -1 with an exception set
 * when it has none that we know. */
int kiln_tensors_learn(PyObject* tensor_class);

/* Describes the `count` items of `list`, tensors and ints, in `values`, for a
 * call of the callable at `user`, which is only an address here; sizes and
 * strides are the tensors' own, good while they live and are not resized.
 * `device` is that of all tensors, type -1 without one. -1 with a TypeError for
 * anything else, a dtype Kiln has not, or a tensor on another device than those
 * before it. */
int kiln_tensors_read(const void* user, PyObject* list, Py_ssize_t count,
                      KilnValue* values, DlpackDevice* device);

/* The current stream of a CUDA device. -1 with an exception set. */
int kiln_tensors_stream(int ordinal, void** stream);

/* The framework's memory of a CUDA device, for kiln_run_with. */
void kiln_tensors_lend(int ordinal, KilnAllocator* allocator);

/* A tensor over `value`, which `memory` keeps alive; both are taken over.
 * `keep`: an object to hold where `memory` is NULL, or NULL. NULL with an
 * exception set. */
PyObject* kiln_tensors_wrap(const KilnValue* value, KilnMemory* memory,
                            PyObject* keep, DlpackDevice device);

#endif /* KILN_CLIENT_PYTHON_NATIVE_TENSORS_H_ */

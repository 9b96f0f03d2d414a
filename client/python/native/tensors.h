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

/* Describes `item`, a tensor or an int, in `value`; sizes and strides are the
 * tensor's own, good while it lives and is not resized. `device` is -1 for an
 * int. -1 with a TypeError for anything else, or a dtype Kiln has not. */
int kiln_tensors_read(PyObject* item, KilnValue* value, DlpackDevice* device);

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

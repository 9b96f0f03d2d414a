#ifndef KILN_CLIENT_PYTHON_NATIVE_READING_H_
#define KILN_CLIENT_PYTHON_NATIVE_READING_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"
#include "client/python/native/dlpack_abi.h"

/* Reads tensors by the plain C functions that libtorch has for AOTInductor,
 * which take a tensor by the address of its C++ handle. A Python tensor holds
 * that handle, one pointer, in itself; `_cdata` is its value. Where in the
 * object it lies is not assumed but looked for, among the words of tensors whose
 * `_cdata` is asked.
 *
 * Why not by PyTorch's exchange table: to look at a tensor that has no other
 * owner than its Python object, that takes a share in it, and a share in the
 * object, for which it takes the GIL twice. 48 ns a tensor against 23, and a
 * call has hundreds of them. */

/* Finds the functions and the place of the handle. -1, with an ImportError,
 * where a function is missing; 0 without a place is fine. Needs the GIL. */
int kiln_reading_learn(PyObject* tensor_class);

/* Whether the place of the handle is known: if not, kiln_reading_read asks for
 * `_cdata`, which takes longer than an exchange table does. */
int kiln_reading_is_direct(void);

/* Describes `object`, a tensor, as it is at this moment, in `value`; its sizes
 * and strides are the tensor's own. `use`: a number of this input of this
 * callable; that it had the same tensor in its last call saves a little. -1 with
 * an exception: RuntimeError for one without strides or memory, or on a device
 * that is neither CPU nor CUDA, TypeError for a dtype that Kiln has not. Needs
 * the GIL. */
int kiln_reading_read(PyObject* object, uintptr_t use, KilnValue* value,
                      DlpackDevice* device);

/* Has the C++ object of a tensor brought near, for a call that reads hundreds. */
void kiln_reading_prefetch(const void* object);

/* libtorch's number of an element type; -1 before kiln_reading_learn, or when
 * that failed. */
int32_t kiln_reading_number_of(KilnDType dtype);

/* Finds a function of libtorch, which `place` points to; 0, with an ImportError,
 * when it is not there. */
int kiln_reading_find(const char* name, void* place);

/* The address of a tensor's first element; NULL without an exception when it has
 * none. -1 with an exception set when it may not be asked for. */
int kiln_reading_address(PyObject* tensor, void** address);

#endif /* KILN_CLIENT_PYTHON_NATIVE_READING_H_ */

#ifndef KILN_CLIENT_PYTHON_NATIVE_STORAGES_H_
#define KILN_CLIENT_PYTHON_NATIVE_STORAGES_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"
#include "client/python/native/dlpack_abi.h"

/* Results that lie in one block of memory as tensors of one storage, which begins
 * where the block does: device graphs know blocks by their storages. Without, a
 * result has a storage of its own wherever it lies, which takes less time. */

/* kiln._native.share_storages(bool): whether this thread's runs do so. */
PyObject* kiln_py_share_storages(PyObject* self, PyObject* on);
int kiln_storages_are_shared(void);

/* Puts `tensor`, result `index`, on the storage of its block. `known`: a dict, the
 * storages of this run's blocks so far. -1 with an exception set. */
int kiln_storages_put(const KilnResults* results, int32_t index,
                      PyObject* tensor, PyObject* known, DlpackDevice device);

#endif /* KILN_CLIENT_PYTHON_NATIVE_STORAGES_H_ */

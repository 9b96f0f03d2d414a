#ifndef KILN_CLIENT_PYTHON_NATIVE_CALLABLES_H_
#define KILN_CLIENT_PYTHON_NATIVE_CALLABLES_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"
#include "client/python/native/dlpack_abi.h"

/* Callables as capsules: the functions of kiln._native that make them and tell
 * of them (native_module.c lists them). */

PyObject* kiln_py_compile(PyObject* self, PyObject* args);
PyObject* kiln_py_report(PyObject* self, PyObject* callable);
PyObject* kiln_py_text(PyObject* self, PyObject* args);

/* name_kernels(callable, name_of): a kernel that the artifact calls `label` is
 * name_of(label) for who watches launches. */
PyObject* kiln_py_name_kernels(PyObject* self, PyObject* args);

/* The callable in a capsule; NULL, with an exception, for anything else. */
KilnCallable* kiln_py_callable(PyObject* capsule);
/* The device that it was compiled for. */
DlpackDevice kiln_py_callable_device(PyObject* capsule);
/* What name_kernels was given, or NULL. Borrowed. */
PyObject* kiln_py_callable_name_of(PyObject* capsule);

#endif /* KILN_CLIENT_PYTHON_NATIVE_CALLABLES_H_ */

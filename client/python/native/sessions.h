#ifndef KILN_CLIENT_PYTHON_NATIVE_SESSIONS_H_
#define KILN_CLIENT_PYTHON_NATIVE_SESSIONS_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"

/* Sessions, the shelf of artifacts that they share, and how far their compiles
 * are: the functions of kiln._native for them (native_module.c lists them). */

/* The capsule's context is 1 and the ordinal of a CUDA device, or NULL. */
PyObject* kiln_py_open_session(PyObject* self, PyObject* args);
PyObject* kiln_py_new_shelf(PyObject* self, PyObject* nothing);
PyObject* kiln_py_save(PyObject* self, PyObject* shelf);
PyObject* kiln_py_load_bundle(PyObject* self, PyObject* args);
PyObject* kiln_py_bundle_devices(PyObject* self, PyObject* args);
PyObject* kiln_py_progress(PyObject* self, PyObject* nothing);

/* The session in a capsule; NULL, with an exception, for anything else. */
KilnSession* kiln_py_session(PyObject* capsule);

/* After each compile and each run, on its thread: what it was told of its
 * kernels counts no more. */
void kiln_py_compile_ended(void);

#endif /* KILN_CLIENT_PYTHON_NATIVE_SESSIONS_H_ */

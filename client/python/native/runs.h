#ifndef KILN_CLIENT_PYTHON_NATIVE_RUNS_H_
#define KILN_CLIENT_PYTHON_NATIVE_RUNS_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Runs a callable's capsule on a list of inputs, which loses the large tensors
 * once nothing reads them. A list of results, or NULL with an exception. */
PyObject* kiln_py_run(PyObject* callable, PyObject* inputs, uint64_t seed);

/* The same as kiln._native.run (native_module.c). */
PyObject* kiln_py_run_method(PyObject* self, PyObject* const* args,
                             Py_ssize_t given);

#endif /* KILN_CLIENT_PYTHON_NATIVE_RUNS_H_ */

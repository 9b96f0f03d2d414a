#ifndef KILN_CLIENT_PYTHON_NATIVE_FORKED_H_
#define KILN_CLIENT_PYTHON_NATIVE_FORKED_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Not 0 in a forked child, another number in each generation: what its parent
 * made is not ended there. */
int kiln_py_abandoned(void);

/* kiln._native.abandon: this process is such a child. */
PyObject* kiln_py_abandon(PyObject* self, PyObject* nothing);

#endif /* KILN_CLIENT_PYTHON_NATIVE_FORKED_H_ */

#ifndef KILN_CLIENT_PYTHON_NATIVE_CALLED_H_
#define KILN_CLIENT_PYTHON_NATIVE_CALLED_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Called: a class whose objects, when they are called, call what their `_run`
 * holds; while that is None, what their `wait()` returns. A `__call__` in Python
 * would be a frame more in each call of a graph.
 *
 * In a forked child a `_run` of its parent's is None.
 *
 * A new reference, or NULL with an exception. */
PyObject* kiln_py_called(void);

#endif /* KILN_CLIENT_PYTHON_NATIVE_CALLED_H_ */

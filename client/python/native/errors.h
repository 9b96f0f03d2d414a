#ifndef KILN_CLIENT_PYTHON_NATIVE_ERRORS_H_
#define KILN_CLIENT_PYTHON_NATIVE_ERRORS_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"

/* Error(code, reason, message): what all functions of kiln._native raise. Its
 * `refusals` are a list of Refusal(node, operator, reason, text), as in kiln.h, and
 * its `refuses_more` says whether there may be further ones.
 *
 * Makes both classes and puts them into the module. 0; or -1 with an exception. */
int kiln_py_add_errors(PyObject* module);

/* Error, borrowed. */
PyObject* kiln_py_error_class(void);

/* Raises `status`, which is freed. Always NULL. Needs the GIL. */
PyObject* kiln_py_raise(KilnStatus* status);

/* An exception that is on its way, put aside: what a failed call leaves is given
 * back while it is set, and Python's functions may not be called then. */
typedef struct KilnAside {
  PyObject *type, *value, *trace;
} KilnAside;
KilnAside kiln_errors_put_aside(void);
/* Prints what has gone wrong since, and takes the exception up again. */
void kiln_errors_take_up(KilnAside aside);

#endif /* KILN_CLIENT_PYTHON_NATIVE_ERRORS_H_ */

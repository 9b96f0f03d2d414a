#ifndef KILN_CLIENT_PYTHON_NATIVE_EXCHANGE_H_
#define KILN_CLIENT_PYTHON_NATIVE_EXCHANGE_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/python/native/dlpack_abi.h"

/* The table by which tensors of a framework cross. PyTorch 2.10 and later carry
 * one; for 2.9 it is made of the plain C functions that libtorch has for
 * AOTInductor, found in the loaded library. Tensors are read by such functions
 * in either case, where that is the quicker way (reading.h). */

/* The table of `tensor_class`, good as long as the process; without `look` where
 * kiln_reading_read is to be used. NULL, with an ImportError, when there is
 * neither. Needs the GIL. */
const DlpackExchange* kiln_exchange_of(PyObject* tensor_class);

#endif /* KILN_CLIENT_PYTHON_NATIVE_EXCHANGE_H_ */

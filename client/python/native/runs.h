#ifndef KILN_CLIENT_PYTHON_NATIVE_RUNS_H_
#define KILN_CLIENT_PYTHON_NATIVE_RUNS_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* What a run draws from. */
typedef struct KilnSeed {
  uint64_t number;
  void* slot; /* 8 bytes on the device that hold it instead; NULL: none */
} KilnSeed;

/* Reads what draws (run_seeds.py): an integer, or a tensor that is a slot. -1 with
 * an exception set. */
int kiln_py_read_seed(PyObject* drawn, KilnSeed* seed);

/* Runs a callable's capsule on a list of inputs, which loses the large tensors
 * once nothing reads them. A list of results, or NULL with an exception. */
PyObject* kiln_py_run(PyObject* callable, PyObject* inputs, KilnSeed seed);

/* The same as kiln._native.run (native_module.c). */
PyObject* kiln_py_run_method(PyObject* self, PyObject* const* args,
                             Py_ssize_t given);

#endif /* KILN_CLIENT_PYTHON_NATIVE_RUNS_H_ */

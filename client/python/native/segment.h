#ifndef KILN_CLIENT_PYTHON_NATIVE_SEGMENT_H_
#define KILN_CLIENT_PYTHON_NATIVE_SEGMENT_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* A segment as one builtin function of its list of inputs, which it empties, and
 * of the seed, if one was drawn for it. A Python function around `run` takes some 0.15 us more.
 *
 *   segment(callable, unserved, instead, rescue, draw) -> function
 *     unserved   a set; while it holds something, instead(inputs) is asked
 *                first, whose results count when it gives some
 *     rescue     rescue(error, inputs) gives the results of a run that ended
 *                with a kiln._native.Error, or raises
 *     draw       draw() gives a run's seed, or a tensor that holds it when the
 *                work runs; None: nothing is drawn */
PyObject* kiln_py_segment(PyObject* self, PyObject* const* args,
                          Py_ssize_t given);

#endif /* KILN_CLIENT_PYTHON_NATIVE_SEGMENT_H_ */

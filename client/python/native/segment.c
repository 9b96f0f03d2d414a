#include "client/python/native/segment.h"

#include "client/python/native/errors.h"
#include "client/python/native/runs.h"

/* Places in the tuple that a segment's function holds. */
enum Part { kCallable, kUnserved, kInstead, kRescue, kDraw, kParts };

/* A new reference, or NULL. */
static PyObject* Rescued(PyObject* rescue, PyObject* inputs) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject* out = PyObject_CallFunctionObjArgs(rescue, error, inputs, NULL);
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
  return out;
}

/* `drawn`: a seed that was drawn for the call, or NULL. */
static PyObject* RunNative(PyObject* parts, PyObject* inputs, PyObject* drawn) {
  KilnSeed seed = {0, NULL};
  PyObject* draw = PyTuple_GetItem(parts, kDraw);
  if (draw != Py_None) {
    Py_XINCREF(drawn);
    if (drawn == NULL) drawn = PyObject_CallFunctionObjArgs(draw, NULL);
    if (drawn == NULL) return NULL;
    const int failed = kiln_py_read_seed(drawn, &seed);
    Py_DECREF(drawn);
    if (failed) return NULL;
  }
  PyObject* out = kiln_py_run(PyTuple_GetItem(parts, kCallable), inputs, seed);
  if (out != NULL || !PyErr_ExceptionMatches(kiln_py_error_class())) return out;
  return Rescued(PyTuple_GetItem(parts, kRescue), inputs);
}

static PyObject* CallSegment(PyObject* parts, PyObject* const* args,
                             Py_ssize_t given) {
  if (given < 1 || given > 2 || !PyList_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "expected: a list of inputs[, a seed]");
    return NULL;
  }
  PyObject* inputs = args[0];
  PyObject* out = NULL;
  if (PySet_Size(PyTuple_GetItem(parts, kUnserved)) > 0) {
    out = PyObject_CallFunctionObjArgs(PyTuple_GetItem(parts, kInstead), inputs,
                                       NULL);
    if (out == NULL) return NULL;
    if (out == Py_None) Py_CLEAR(out);
  }
  if (out == NULL) out = RunNative(parts, inputs, given == 2 ? args[1] : NULL);
  if (out != NULL) PyList_SetSlice(inputs, 0, PyList_Size(inputs), NULL);
  return out;
}

static PyMethodDef segment_def = {
    "segment", (PyCFunction)(void (*)(void))&CallSegment, METH_FASTCALL,
    "Runs a segment on a list of inputs."};

PyObject* kiln_py_segment(PyObject* self, PyObject* const* args,
                          Py_ssize_t given) {
  (void)self;
  if (given != kParts || !PyAnySet_Check(args[kUnserved])) {
    PyErr_SetString(PyExc_TypeError,
                    "expected: callable, unserved, instead, rescue, draw");
    return NULL;
  }
  PyObject* parts = PyTuple_New(kParts);
  if (parts == NULL) return NULL;
  for (Py_ssize_t i = 0; i < kParts; ++i) {
    Py_INCREF(args[i]);
    PyTuple_SetItem(parts, i, args[i]);
  }
  PyObject* function = PyCFunction_NewEx(&segment_def, parts, NULL);
  Py_DECREF(parts);
  return function;
}

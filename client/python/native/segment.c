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

static PyObject* RunNative(PyObject* parts, PyObject* inputs) {
  uint64_t seed = 0;
  PyObject* draw = PyTuple_GetItem(parts, kDraw);
  if (draw != Py_None) {
    PyObject* drawn = PyObject_CallFunctionObjArgs(draw, NULL);
    if (drawn == NULL) return NULL;
    seed = PyLong_AsUnsignedLongLongMask(drawn);
    Py_DECREF(drawn);
    if (PyErr_Occurred()) return NULL;
  }
  PyObject* out = kiln_py_run(PyTuple_GetItem(parts, kCallable), inputs, seed);
  if (out != NULL || !PyErr_ExceptionMatches(kiln_py_error_class())) return out;
  return Rescued(PyTuple_GetItem(parts, kRescue), inputs);
}

static PyObject* CallSegment(PyObject* parts, PyObject* inputs) {
  if (!PyList_Check(inputs)) {
    PyErr_SetString(PyExc_TypeError, "due: a list of inputs");
    return NULL;
  }
  PyObject* out = NULL;
  if (PySet_Size(PyTuple_GetItem(parts, kUnserved)) > 0) {
    out = PyObject_CallFunctionObjArgs(PyTuple_GetItem(parts, kInstead), inputs,
                                       NULL);
    if (out == NULL) return NULL;
    if (out == Py_None) Py_CLEAR(out);
  }
  if (out == NULL) out = RunNative(parts, inputs);
  if (out != NULL) PyList_SetSlice(inputs, 0, PyList_Size(inputs), NULL);
  return out;
}

static PyMethodDef segment_def = {"segment", &CallSegment, METH_O,
                                  "Runs a segment on a list of inputs."};

PyObject* kiln_py_segment(PyObject* self, PyObject* const* args,
                          Py_ssize_t given) {
  (void)self;
  if (given != kParts || !PyAnySet_Check(args[kUnserved])) {
    PyErr_SetString(PyExc_TypeError,
                    "due: callable, unserved, instead, rescue, draw");
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

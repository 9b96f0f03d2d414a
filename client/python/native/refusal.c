#include "client/python/native/refusal.h"

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char noted[4096];

void kiln_refusal_forget(void) { noted[0] = '\0'; }

void kiln_refusal_note(const char* words) {
  if (noted[0] != '\0') return;
  snprintf(noted, sizeof(noted), "%s", words);
  /* As in Python: without the frames of C++. */
  char* frames = strstr(noted, "\nException raised from ");
  if (frames != NULL) *frames = '\0';
}

void kiln_refusal_note_raised(void) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* told = value != NULL ? PyObject_Str(value) : NULL;
  const char* words =
      told != NULL ? PyUnicode_AsUTF8AndSize(told, NULL) : NULL;
  if (words != NULL) kiln_refusal_note(words);
  PyErr_Clear(); /* words that could not be told */
  Py_XDECREF(told);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyGILState_Release(state);
}

/* A new reference; NULL with an exception set. All of PyTorch's messages of
 * missing memory have these words. */
static PyObject* ClassOf(const char* words) {
  if (strstr(words, "out of memory") == NULL) {
    Py_INCREF(PyExc_RuntimeError);
    return PyExc_RuntimeError;
  }
  PyObject* torch = PyImport_ImportModule("torch");
  if (torch == NULL) return NULL;
  PyObject* class = PyObject_GetAttrString(torch, "OutOfMemoryError");
  Py_DECREF(torch);
  return class;
}

int kiln_refusal_raise(void) {
  if (noted[0] == '\0') return 0;
  PyObject* class = ClassOf(noted);
  if (class != NULL) PyErr_SetString(class, noted);
  Py_XDECREF(class);
  return 1;
}

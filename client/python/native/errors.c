#include "client/python/native/errors.h"

#include "client/python/native/library.h"

static PyObject* error_class;
static PyTypeObject* refusal_class;

static PyStructSequence_Field refusal_fields[] = {
    {"node", "its place among the graph's nodes"},
    {"operator", "as the graph names it"},
    {"reason", "UNSUPPORTED_OP, or MALFORMED_GRAPH"},
    {"text", "why, for people"},
    {NULL, NULL}};

static PyStructSequence_Desc refusal_desc = {
    "kiln._native.Refusal", "A node that Kiln does not compile.",
    refusal_fields, 4};

/* The index-th refusal; NULL with an exception. */
static PyObject* RefusalOf(const KilnStatus* status, int32_t index) {
  PyObject* const fields[] = {
      PyLong_FromUnsignedLong(
          kiln_library.kiln_status_refusal_node(status, index)),
      PyUnicode_FromString(
          kiln_library.kiln_status_refusal_operator(status, index)),
      PyUnicode_FromString(
          kiln_library.kiln_status_refusal_reason(status, index)),
      PyUnicode_FromString(
          kiln_library.kiln_status_refusal_text(status, index))};
  PyObject* refusal = PyStructSequence_New(refusal_class);
  for (int i = 0; i < 4; ++i) {
    if (refusal == NULL || fields[i] == NULL) {
      Py_XDECREF(fields[i]);
    } else {
      PyStructSequence_SetItem(refusal, i, fields[i]);
    }
  }
  if (!PyErr_Occurred()) return refusal;
  Py_XDECREF(refusal);
  return NULL;
}

/* All refusals; NULL with an exception. */
static PyObject* RefusalsOf(const KilnStatus* status) {
  const int32_t count = kiln_library.kiln_status_refusal_count(status);
  PyObject* all = PyList_New(count);
  for (int32_t i = 0; all != NULL && i < count; ++i) {
    PyObject* one = RefusalOf(status, i);
    if (one == NULL || PyList_SetItem(all, i, one) != 0) Py_CLEAR(all);
  }
  return all;
}

/* An Error with all that the status tells; NULL with an exception. */
static PyObject* ErrorOf(const KilnStatus* status) {
  PyObject* error = PyObject_CallFunction(
      error_class, "iss", kiln_library.kiln_status_code(status),
      kiln_library.kiln_status_reason(status),
      kiln_library.kiln_status_message(status));
  if (error == NULL) return NULL;
  PyObject* refusals = RefusalsOf(status);
  const int more = kiln_library.kiln_status_refuses_more(status);
  if (refusals == NULL ||
      PyObject_SetAttrString(error, "refusals", refusals) != 0 ||
      PyObject_SetAttrString(error, "refuses_more",
                             more ? Py_True : Py_False) != 0) {
    Py_CLEAR(error);
  }
  Py_XDECREF(refusals);
  return error;
}

PyObject* kiln_py_error_class(void) { return error_class; }

PyObject* kiln_py_raise(KilnStatus* status) {
  PyObject* error = ErrorOf(status);
  kiln_library.kiln_status_free(status);
  if (error != NULL) PyErr_SetObject(error_class, error);
  Py_XDECREF(error);
  return NULL;
}

/* What an Error that Python made has. */
static PyObject* PlainMembers(void) {
  return Py_BuildValue("{s() sO}", "refusals", "refuses_more", Py_False);
}

int kiln_py_add_errors(PyObject* module) {
  refusal_class = PyStructSequence_NewType(&refusal_desc);
  PyObject* members = PlainMembers();
  if (refusal_class == NULL || members == NULL) {
    Py_XDECREF(members);
    return -1;
  }
  error_class = PyErr_NewExceptionWithDoc(
      "kiln.KilnError", "What Kiln answered: (code, reason, message).",
      PyExc_RuntimeError, members);
  Py_DECREF(members);
  return error_class != NULL &&
                 PyModule_AddObjectRef(module, "Error", error_class) == 0 &&
                 PyModule_AddObjectRef(module, "Refusal",
                                       (PyObject*)refusal_class) == 0
             ? 0
             : -1;
}

KilnAside kiln_errors_put_aside(void) {
  KilnAside aside;
  PyErr_Fetch(&aside.type, &aside.value, &aside.trace);
  return aside;
}

void kiln_errors_take_up(KilnAside aside) {
  if (PyErr_Occurred()) PyErr_WriteUnraisable(NULL);
  PyErr_Restore(aside.type, aside.value, aside.trace);
}

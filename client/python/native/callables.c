#include "client/python/native/callables.h"

#include "client/python/native/errors.h"
#include "client/python/native/forked.h"
#include "client/python/native/library.h"
#include "client/python/native/sessions.h"

static const char kCallable[] = "kiln.callable";

/* What a capsule's context points to. */
typedef struct Own {
  intptr_t device; /* of the session's capsule */
  PyObject* name_of;
} Own;

static Own* OwnOf(PyObject* capsule) { return PyCapsule_GetContext(capsule); }

static void FreeCallable(PyObject* capsule) {
  Own* own = OwnOf(capsule);
  if (own != NULL) Py_XDECREF(own->name_of);
  PyMem_Free(own);
  if (kiln_py_abandoned()) return;
  kiln_library.kiln_callable_free(PyCapsule_GetPointer(capsule, kCallable));
}

KilnCallable* kiln_py_callable(PyObject* capsule) {
  return PyCapsule_GetPointer(capsule, kCallable);
}

PyObject* kiln_py_compile(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* capsule;
  const char* bytes;
  Py_ssize_t length;
  const char* options;
  Py_ssize_t options_length;
  if (!PyArg_ParseTuple(args, "Oy#y#", &capsule, &bytes, &length, &options,
                        &options_length)) {
    return NULL;
  }
  KilnSession* session = kiln_py_session(capsule);
  if (session == NULL) return NULL;
  KilnGraph* graph = NULL;
  KilnCallable* callable = NULL;
  KilnStatus* status;
  Py_BEGIN_ALLOW_THREADS;
  status = kiln_library.kiln_graph_parse(bytes, (size_t)length, &graph);
  if (status == NULL) {
    status = kiln_library.kiln_compile_with(session, graph, options,
                                            (size_t)options_length, &callable);
    kiln_library.kiln_graph_free(graph);
  }
  kiln_py_compile_ended();
  Py_END_ALLOW_THREADS;
  if (status != NULL) return kiln_py_raise(status);
  PyObject* made = PyCapsule_New(callable, kCallable, &FreeCallable);
  if (made == NULL) return NULL;
  Own* own = PyMem_Calloc(1, sizeof(Own));
  if (own == NULL || PyCapsule_SetContext(made, own) != 0) {
    PyMem_Free(own);
    Py_DECREF(made);
    return own == NULL ? PyErr_NoMemory() : NULL;
  }
  own->device = (intptr_t)PyCapsule_GetContext(capsule);
  return made;
}

PyObject* kiln_py_name_kernels(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *capsule, *name_of;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &name_of)) return NULL;
  if (kiln_py_callable(capsule) == NULL) return NULL;
  Own* own = OwnOf(capsule);
  Py_INCREF(name_of);
  Py_XDECREF(own->name_of);
  own->name_of = name_of;
  Py_RETURN_NONE;
}

PyObject* kiln_py_callable_name_of(PyObject* capsule) {
  return OwnOf(capsule)->name_of;
}

DlpackDevice kiln_py_callable_device(PyObject* capsule) {
  const intptr_t number = OwnOf(capsule)->device;
  DlpackDevice device = {kDlpackCpu, 0};
  if (number > 0) {
    device = (DlpackDevice){kDlpackCuda, (int32_t)(number - 1)};
  }
  return device;
}

PyObject* kiln_py_report(PyObject* self, PyObject* capsule) {
  (void)self;
  KilnCallable* callable = kiln_py_callable(capsule);
  if (callable == NULL) return NULL;
  KilnReport report = {.struct_size = sizeof(report)};
  KilnStatus* status = kiln_library.kiln_callable_report(callable, &report);
  if (status != NULL) return kiln_py_raise(status);
  return Py_BuildValue(
      "{si si si sL sL si si si si}", "artifacts", report.artifacts,
      "by_local_worker", report.by_local_worker, "served_from",
      (int)report.served_from, "compile_us", (long long)report.compile_us,
      "load_us", (long long)report.load_us, "units_built", report.units_built,
      "units_cached", report.units_cached, "daemon_lost", report.daemon_lost,
      "reads_seed", report.reads_seed);
}

PyObject* kiln_py_text(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* capsule;
  int what;
  if (!PyArg_ParseTuple(args, "Oi", &capsule, &what)) return NULL;
  KilnCallable* callable = kiln_py_callable(capsule);
  if (callable == NULL) return NULL;
  size_t room = 0;
  size_t length =
      kiln_library.kiln_callable_text(callable, (KilnText)what, NULL, 0);
  char* buffer = NULL;
  do { /* another thread's call may compile an artifact meanwhile */
    PyMem_Free(buffer);
    room = length + 1;
    buffer = PyMem_Malloc(room);
    if (buffer == NULL) return PyErr_NoMemory();
    length =
        kiln_library.kiln_callable_text(callable, (KilnText)what, buffer, room);
  } while (length >= room);
  PyObject* text = PyUnicode_FromStringAndSize(buffer, (Py_ssize_t)length);
  PyMem_Free(buffer);
  return text;
}

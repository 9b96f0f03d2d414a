#include "client/python/native/called.h"

#include "client/python/native/forked.h"

typedef struct Called {
  PyObject_HEAD;
  PyObject* run; /* NULL: None */
  int abandoned; /* kiln_py_abandoned() when it was set */
} Called;

/* Borrowed; NULL: none, or a parent's. */
static inline PyObject* RunOf(const Called* self) {
  return self->abandoned == kiln_py_abandoned() ? self->run : NULL;
}

static PyObject* Call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* run = RunOf((Called*)self);
  if (run != NULL) {
    Py_INCREF(run);
  } else {
    run = PyObject_CallMethod(self, "wait", NULL);
    if (run == NULL) return NULL;
  }
  PyObject* out = PyObject_Call(run, args, kwargs);
  Py_DECREF(run);
  return out;
}

static PyObject* GetRun(PyObject* self, void* nothing) {
  (void)nothing;
  PyObject* run = RunOf((Called*)self);
  if (run == NULL) run = Py_None;
  Py_INCREF(run);
  return run;
}

static int SetRun(PyObject* self, PyObject* run, void* nothing) {
  (void)nothing;
  Called* called = (Called*)self;
  if (run == Py_None) run = NULL;
  Py_XINCREF(run);
  PyObject* old = called->run;
  called->run = run;
  called->abandoned = kiln_py_abandoned();
  Py_XDECREF(old);
  return 0;
}

static int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Called*)self)->run);
  return 0;
}

static int Clear(PyObject* self) { return SetRun(self, NULL, NULL); }

static void Dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Clear(self);
  PyTypeObject* type = Py_TYPE(self);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(self);
  Py_DECREF(type);
}

static PyGetSetDef getset[] = {
    {"_run", &GetRun, &SetRun, "What a call calls, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "What calls its `_run`, or what its `wait()` returns."},
    {Py_tp_call, &Call},
    {Py_tp_getset, getset},
    {Py_tp_traverse, &Traverse},
    {Py_tp_clear, &Clear},
    {Py_tp_dealloc, &Dealloc},
    {0, NULL}};

static PyType_Spec spec = {
    "kiln._native.Called", sizeof(Called), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

PyObject* kiln_py_called(void) { return PyType_FromSpec(&spec); }

#include "client/python/native/graph_tree.h"

#include <string.h>

#include "client/python/native/errors.h"
#include "client/python/native/forked.h"
#include "client/python/native/graph_function.h"
#include "client/python/native/graph_host.h"
#include "client/python/native/graph_torch.h"
#include "client/python/native/library.h"

static KilnGraphTree* Open(KilnHostContext* context) {
  KilnGraphHost host;
  kiln_graph_host(context, &host);
  PyObject* name = PyObject_GetAttrString(context->device, "pool_name");
  PyObject* bytes = name == NULL ? NULL : PyUnicode_AsUTF8String(name);
  Py_XDECREF(name);
  if (bytes == NULL) return NULL;
  KilnGraphTree* tree = NULL;
  KilnStatus* status = kiln_library.kiln_graph_tree_new(
      &host, PyBytes_AsString(bytes), &tree);
  if (status != NULL) kiln_py_raise(status);
  Py_DECREF(bytes);
  return tree;
}

/* Nothing of what is no GPU. */
static KilnGraphContext ContextOf(PyObject* device) {
  PyObject* index = PyObject_GetAttrString(device, "index");
  const long ordinal = index == NULL ? -1 : PyLong_AsLong(index);
  Py_XDECREF(index);
  PyErr_Clear();
  if (ordinal >= 0) return kiln_graph_context_of((int)ordinal);
  return (KilnGraphContext){NULL, 0};
}

static PyObject* New(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  (void)kwargs;
  PyObject* device;
  if (!PyArg_ParseTuple(args, "O", &device)) return NULL;
  if (kiln_graph_torch_learn() != 0 || kiln_py_graph_function_learn() != 0) {
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  KilnPyTree* self = (KilnPyTree*)allocate(type, 0);
  if (self == NULL) return NULL;
  self->calls = PyObject_GetAttrString(device, "calls");
  self->marks = self->calls ? PyObject_GetAttrString(device, "marks") : NULL;
  Py_INCREF(device);
  self->context.device = device;
  self->made_in = ContextOf(device);
  self->stream_of =
      self->marks ? PyObject_GetAttrString(device, "stream_of") : NULL;
  self->tree = self->stream_of ? Open(&self->context) : NULL;
  if (self->tree != NULL) return (PyObject*)self;
  Py_DECREF(self);
  return NULL;
}

static int Traverse(PyObject* object, visitproc visit, void* arg) {
  KilnPyTree* self = (KilnPyTree*)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->calls);
  Py_VISIT(self->marks);
  Py_VISIT(self->stream_of);
  Py_VISIT(self->context.device);
  return kiln_recordings_visit(&self->context.recordings, visit, arg);
}

/* Drops all recordings. What goes wrong is nobody's to be told: the pool is lost. */
static void End(KilnGraphTree* tree) {
  const KilnAside aside = kiln_errors_put_aside();
  kiln_library.kiln_graph_tree_shutdown(tree);
  PyErr_Clear();
  kiln_errors_take_up(aside);
}

/* The garbage collector does it before it clears anything, such as the device,
 * which the end of a tree asks to have results own their memory. */
static void Finalize(PyObject* object) {
  KilnPyTree* self = (KilnPyTree*)object;
  if (self->tree != NULL && !kiln_py_abandoned()) End(self->tree);
}

static void Dealloc(PyObject* object) {
  KilnPyTree* self = (KilnPyTree*)object;
  PyObject_GC_UnTrack(object);
  KilnGraphTree* tree = self->tree;
  self->tree = NULL;
  if (tree != NULL && !kiln_py_abandoned()) {
    End(tree);
    kiln_library.kiln_graph_tree_free(tree);
  }
  Py_XDECREF(self->calls);
  Py_XDECREF(self->marks);
  Py_XDECREF(self->stream_of);
  Py_XDECREF(self->context.device);
  PyTypeObject* type = Py_TYPE(object);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(object);
  Py_DECREF(type);
}

static PyObject* Shutdown(PyObject* self, PyObject* nothing) {
  (void)nothing;
  End(((KilnPyTree*)self)->tree);
  Py_RETURN_NONE;
}

static PyObject* BackwardRan(PyObject* self, PyObject* nothing) {
  (void)nothing;
  kiln_library.kiln_graph_tree_backward_ran(((KilnPyTree*)self)->tree);
  Py_RETURN_NONE;
}

static PyObject* Report(PyObject* self, PyObject* nothing) {
  (void)nothing;
  KilnGraphReport report = {.struct_size = sizeof(report)};
  KilnStatus* status =
      kiln_library.kiln_graph_tree_report(((KilnPyTree*)self)->tree, &report);
  if (status != NULL) return kiln_py_raise(status);
  PyObject* current =
      report.has_current ? PyLong_FromLong(report.current) : Py_BuildValue("");
  return Py_BuildValue(
      "{sisNsisLsLsLsLsLsLsLsL}", "state", (int)report.state, "current",
      current, "forwards_pending", report.forwards_pending, "warm_ups",
      (long long)report.warm_ups, "recordings", (long long)report.recordings,
      "replays", (long long)report.replays, "plain_runs",
      (long long)report.plain_runs, "checkpoints",
      (long long)report.checkpoints, "skips", (long long)report.skips,
      "recorded_copied_inputs", (long long)report.recorded_copied_inputs,
      "records_without_match", (long long)report.records_without_match);
}

/* A list of pairs. */
static PyObject* Pairs(const KilnGraphIndex* indices, int32_t count) {
  PyObject* list = PyList_New(count);
  for (int32_t i = 0; list != NULL && i < count; ++i) {
    PyObject* pair = Py_BuildValue("(ii)", indices[i].depth, indices[i].output);
    if (pair == NULL || PyList_SetItem(list, i, pair) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject* Integers(const int32_t* numbers, int32_t count) {
  PyObject* list = PyList_New(count);
  for (int32_t i = 0; list != NULL && i < count; ++i) {
    PyObject* number = PyLong_FromLong(numbers[i]);
    if (number == NULL || PyList_SetItem(list, i, number) != 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

static PyObject* Addresses(const void* const* addresses, int32_t count) {
  PyObject* list = PyList_New(count);
  for (int32_t i = 0; list != NULL && i < count; ++i) {
    PyObject* number = PyLong_FromVoidPtr((void*)addresses[i]);
    if (number == NULL || PyList_SetItem(list, i, number) != 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

static void TellNode(void* list, const KilnGraphNode* node) {
  PyObject* told = Py_BuildValue(
      "{sisisisNsNsNsNsN}", "id", node->id, "function", node->function, "depth",
      node->depth, "dead_before",
      Pairs(node->dead_before, node->dead_before_count), "dead_after",
      Pairs(node->dead_after, node->dead_after_count), "live_after",
      Pairs(node->live_after, node->live_after_count), "rules",
      Integers(node->rules, node->output_count), "addresses",
      Addresses(node->addresses, node->input_count));
  if (told == NULL || PyList_Append(list, told) != 0) PyErr_Print();
  Py_XDECREF(told);
}

static PyObject* Nodes(PyObject* self, PyObject* nothing) {
  (void)nothing;
  PyObject* list = PyList_New(0);
  if (list == NULL) return NULL;
  kiln_library.kiln_graph_tree_nodes(((KilnPyTree*)self)->tree, &TellNode,
                                     list);
  return list;
}

static PyMethodDef methods[] = {
    {"add", &kiln_py_graph_function, METH_VARARGS, "Makes a function known."},
    {"backward_ran", &BackwardRan, METH_NOARGS, "One that is not the tree's."},
    {"shutdown", &Shutdown, METH_NOARGS, "Drops all recordings."},
    {"report", &Report, METH_NOARGS, "State and counters."},
    {"nodes", &Nodes, METH_NOARGS, "The recordings, parents first."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_doc, "Graphs of a device."},
                              {Py_tp_new, &New},
                              {Py_tp_methods, methods},
                              {Py_tp_traverse, &Traverse},
                              {Py_tp_finalize, &Finalize},
                              {Py_tp_dealloc, &Dealloc},
                              {0, NULL}};

static PyType_Spec spec = {"kiln._native.GraphTree", sizeof(KilnPyTree), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

PyObject* kiln_py_graph_tree_class(void) { return PyType_FromSpec(&spec); }

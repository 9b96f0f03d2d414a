#include "client/python/native/graph_function.h"

#include "client/python/native/errors.h"
#include "client/python/native/forked.h"
#include "client/python/native/graph_recording.h"
#include "client/python/native/graph_torch.h"
#include "client/python/native/library.h"
#include "client/python/native/reading.h"

enum { kInline = 64 }; /* inputs without an allocation */

/* What a function of Python is bound to. */
typedef struct Called {
  PyObject_HEAD;
  KilnPyTree* tree;
  PyObject* body;      /* what the tree calls */
  PyObject* constants; /* that the body has of its own */
  int32_t function;    /* -1: the tree does not know it yet */
  int32_t tensors;     /* inputs on the device */
  int32_t* places;
} Called;

static PyTypeObject* called_type;
/* Read at each call. */
static PyObject *generation, *mark_step_counter;

static int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT((PyObject*)((Called*)self)->tree);
  Py_VISIT(((Called*)self)->body);
  Py_VISIT(((Called*)self)->constants);
  return 0;
}

/* The tree drops what it has of a function that nobody can call any more. */
static void Remove(const KilnPyTree* tree, int32_t function) {
  if (tree->tree == NULL || function < 0 || kiln_py_abandoned()) return;
  const KilnAside aside = kiln_errors_put_aside();
  KilnStatus* status =
      kiln_library.kiln_graph_tree_remove(tree->tree, function);
  if (status != NULL) kiln_library.kiln_status_free(status);
  kiln_errors_take_up(aside);
}

static int Clear(PyObject* self) {
  Called* called = (Called*)self;
  KilnPyTree* tree = called->tree;
  called->tree = NULL;
  if (tree != NULL) Remove(tree, called->function);
  Py_XDECREF((PyObject*)tree);
  Py_CLEAR(called->body);
  Py_CLEAR(called->constants);
  return 0;
}

static void Dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Clear(self);
  PyMem_Free(((Called*)self)->places);
  PyTypeObject* type = Py_TYPE(self);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(self);
  Py_DECREF(type);
}

static PyObject* NumberOfFunction(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromLong(((Called*)self)->function);
}

static PyGetSetDef getset[] = {
    {"number", &NumberOfFunction, NULL, "The function's, as notes have it.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_getset, getset},
                              {Py_tp_traverse, &Traverse},
                              {Py_tp_clear, &Clear},
                              {Py_tp_dealloc, &Dealloc},
                              {0, NULL}};

static PyType_Spec spec = {"kiln._native.graph", sizeof(Called), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int kiln_py_graph_function_learn(void) {
  if (called_type != NULL) return 0;
  generation = PyUnicode_InternFromString("generation");
  mark_step_counter = PyUnicode_InternFromString("mark_step_counter");
  if (generation == NULL || mark_step_counter == NULL) return -1;
  called_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return called_type == NULL ? -1 : 0;
}

static int64_t CounterOf(PyObject* owner, PyObject* name) {
  PyObject* number = PyObject_GetAttr(owner, name);
  if (number == NULL) return -1;
  const int64_t value = PyLong_AsLongLong(number);
  Py_DECREF(number);
  return value;
}

/* The number of the program's thread that calls. 0 with an exception set. */
static int64_t ThreadOf(PyObject* device) {
  static _Thread_local int64_t own; /* 0: not asked yet, or autograd's */
  if (own != 0) return own;
  PyObject* number = PyObject_CallMethod(device, "thread", NULL);
  const int64_t value = number == NULL ? 0 : PyLong_AsLongLong(number);
  Py_XDECREF(number);
  if (value > 0) own = value;
  return value < 0 ? -value : value;
}

static void TellNote(void* device, KilnGraphNoteKind kind, int32_t function,
                     const char* text) {
  if (PyErr_Occurred()) return; /* of an earlier one */
  PyObject* out = PyObject_CallMethod(device, "note", "iis", (int)kind,
                                      (int)function, text);
  Py_XDECREF(out);
}

static int ReadInputs(const Called* called, PyObject* list,
                      KilnGraphInput* inputs, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    inputs[i] = (KilnGraphInput){0, NULL, NULL, NULL};
  }
  for (int32_t i = 0; i < called->tensors; ++i) {
    const int32_t at = called->places[i];
    PyObject* item = at < count ? PyList_GetItem(list, at) : NULL;
    if (item == NULL) {
      PyErr_SetString(PyExc_TypeError, "a graph: too few inputs");
      return -1;
    }
    void* address = NULL;
    if (kiln_reading_address(item, &address) != 0) return -1;
    inputs[at].is_tensor = 1;
    inputs[at].address = address;
  }
  return 0;
}

/* kiln_graph_tree_run. Calls that begin while another is under way are plain. */
static KilnStatus* Run(KilnPyTree* tree, const KilnGraphCall* call) {
  KilnHostContext* context = &tree->context;
  PyObject* number = NULL;
  if (context->depth == 0) {
    number = PyObject_CallObject(tree->stream_of, NULL);
    if (number == NULL) return NULL;
    context->caller = call->thread;
    if (context->thread == 0) context->thread = call->thread;
  }
  ++context->depth;
  KilnStatus* status = kiln_library.kiln_graph_tree_run(tree->tree, call);
  --context->depth;
  if (number != NULL && context->thread == call->thread) {
    context->stream = PyLong_AsLongLong(number);
  }
  Py_XDECREF(number);
  return status;
}

static PyObject* RunOn(const Called* called, PyObject* list,
                       KilnGraphInput* inputs, Py_ssize_t count) {
  KilnPyTree* tree = called->tree;
  if (kiln_graph_context_check(&tree->made_in) != 0 ||
      ReadInputs(called, list, inputs, count) != 0) {
    return NULL;
  }
  KilnGraphCaller caller = {list, NULL};
  const KilnGraphCall call = {
      .struct_size = sizeof(call),
      .function = called->function,
      .inputs = inputs,
      .count = (int32_t)count,
      .caller = &caller,
      .calls = CounterOf(tree->calls, generation),
      .marks = -CounterOf(tree->marks, mark_step_counter),
      .thread = ThreadOf(tree->context.device),
  };
  if (PyErr_Occurred()) return NULL;
  KilnStatus* status = Run(tree, &call);
  if (!PyErr_Occurred()) {
    kiln_library.kiln_graph_tree_notes(tree->tree, &TellNote,
                                       tree->context.device);
  }
  if (status == NULL && !PyErr_Occurred()) return caller.outputs;
  Py_XDECREF(caller.outputs);
  if (!PyErr_Occurred()) return kiln_py_raise(status);
  if (status != NULL) kiln_library.kiln_status_free(status);
  return NULL;
}

static PyObject* Call(PyObject* self, PyObject* list) {
  const Called* called = (Called*)self;
  if (called->tree == NULL || !PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "expected: a list of inputs");
    return NULL;
  }
  const Py_ssize_t count = PyList_Size(list);
  KilnGraphInput inline_inputs[kInline];
  KilnGraphInput* inputs = inline_inputs;
  if (count > kInline) {
    inputs = PyMem_Malloc((size_t)count * sizeof(KilnGraphInput));
    if (inputs == NULL) return PyErr_NoMemory();
  }
  PyObject* out = RunOn(called, list, inputs, count);
  if (inputs != inline_inputs) PyMem_Free(inputs);
  return out;
}

static PyMethodDef call_def = {
    "graph", &Call, METH_O, "Runs a function of a tree on a list of inputs."};

/* Of a list: its numbers, in memory that PyMem_Free takes. NULL with an
 * exception set; never NULL otherwise. */
static int32_t* NumbersOf(PyObject* list, int32_t* count) {
  const Py_ssize_t size = PyList_Size(list);
  if (size < 0) return NULL;
  int32_t* numbers = PyMem_Malloc(((size_t)size + 1) * sizeof(int32_t));
  if (numbers == NULL) return (int32_t*)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < size; ++i) {
    numbers[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, i));
  }
  *count = (int32_t)size;
  if (!PyErr_Occurred()) return numbers;
  PyMem_Free(numbers);
  return NULL;
}

/* Of a list of texts, which `keep` gets the bytes of; entries of None are NULL. */
static const char** TextsOf(PyObject* list, PyObject* keep, int32_t* count) {
  const Py_ssize_t size = PyList_Size(list);
  if (size < 0) return NULL;
  const char** texts = PyMem_Calloc((size_t)size + 1, sizeof(char*));
  if (texts == NULL) return (const char**)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyList_GetItem(list, i);
    if (item == Py_None) continue;
    PyObject* bytes = PyUnicode_AsUTF8String(item);
    if (bytes == NULL) break;
    texts[i] = PyBytes_AsString(bytes);
    PyList_Append(keep, bytes);
    Py_DECREF(bytes);
  }
  *count = (int32_t)size;
  if (!PyErr_Occurred()) return texts;
  PyMem_Free(texts);
  return NULL;
}

static KilnGraphInput* ConstantsOf(PyObject* list, int32_t* count) {
  const Py_ssize_t size = PyList_Size(list);
  if (size < 0) return NULL;
  KilnGraphInput* constants =
      PyMem_Calloc((size_t)size + 1, sizeof(KilnGraphInput));
  if (constants == NULL) return (KilnGraphInput*)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < size; ++i) {
    void* address = NULL;
    constants[i].is_tensor = 1;
    constants[i].storage =
        kiln_graph_storage_of(PyList_GetItem(list, i), &address);
    constants[i].storage_address = address;
    if (constants[i].storage == NULL) break;
  }
  *count = (int32_t)size;
  if (!PyErr_Occurred()) return constants;
  PyMem_Free(constants);
  return NULL;
}

typedef struct Given {
  int mode;
  PyObject *body, *tensors, *fixed, *mutated, *constants, *names, *traces,
      *output_traces, *options;
  const char* mutation_trace;
} Given;

/* A number of a dict, or `otherwise`. */
static int32_t NumberOf(PyObject* options, const char* name,
                        int32_t otherwise) {
  PyObject* found = PyDict_GetItemString(options, name);
  return found == NULL ? otherwise : (int32_t)PyLong_AsLong(found);
}

static void SetOptions(PyObject* options, KilnGraphFunction* function) {
  function->rerecord_limit = NumberOf(options, "rerecord_limit", -1);
  function->moved_static_input_is_error =
      NumberOf(options, "moved_static_input_is_error", 0);
  function->no_mutation_of_outputs =
      NumberOf(options, "no_mutation_of_outputs", 0);
  function->skip_warm_up = NumberOf(options, "skip_warm_up", 0);
  function->always_warm_up = NumberOf(options, "always_warm_up", 0);
  function->check_pool = NumberOf(options, "check_pool", 0);
  function->skip_is_error = NumberOf(options, "skip_is_error", 0);
  function->static_alignment = NumberOf(options, "static_alignment", 0);
}

/* The function's number, or -1 with an exception set. */
static int32_t AddTo(KilnPyTree* tree, const Given* given) {
  PyObject* keep = PyList_New(0);
  if (keep == NULL) return -1;
  KilnGraphFunction function = {.struct_size = sizeof(function),
                                .mode = (KilnGraphMode)given->mode,
                                .body = given->body,
                                .mutation_trace = given->mutation_trace};
  SetOptions(given->options, &function);
  int32_t* fixed = NumbersOf(given->fixed, &function.static_input_count);
  int32_t* mutated =
      fixed ? NumbersOf(given->mutated, &function.mutated_input_count) : NULL;
  KilnGraphInput* constants =
      mutated ? ConstantsOf(given->constants, &function.constant_count) : NULL;
  int32_t texts = 0;
  const char** names = constants ? TextsOf(given->names, keep, &texts) : NULL;
  const char** traces =
      names ? TextsOf(given->traces, keep, &function.input_text_count) : NULL;
  const char** outputs =
      traces ? TextsOf(given->output_traces, keep, &function.output_trace_count)
             : NULL;
  int32_t number = -1;
  if (outputs != NULL && !PyErr_Occurred()) {
    if (texts < function.input_text_count) function.input_text_count = texts;
    function.static_inputs = fixed;
    function.mutated_inputs = mutated;
    function.constants = constants;
    function.input_names = names;
    function.input_traces = traces;
    function.output_traces = outputs;
    KilnStatus* status =
        kiln_library.kiln_graph_tree_add(tree->tree, &function, &number);
    if (status != NULL) kiln_py_raise(status);
  }
  PyMem_Free(fixed);
  PyMem_Free(mutated);
  PyMem_Free(constants);
  PyMem_Free(names);
  PyMem_Free(traces);
  PyMem_Free(outputs);
  Py_DECREF(keep);
  return PyErr_Occurred() ? -1 : number;
}

PyObject* kiln_py_graph_function(PyObject* self, PyObject* args) {
  KilnPyTree* tree = (KilnPyTree*)self;
  Given given;
  if (!PyArg_ParseTuple(args, "iOOOOOOOOsO!", &given.mode, &given.body,
                        &given.tensors, &given.fixed, &given.mutated,
                        &given.constants, &given.names, &given.traces,
                        &given.output_traces, &given.mutation_trace,
                        &PyDict_Type, &given.options)) {
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(called_type, Py_tp_alloc);
  Called* called = (Called*)allocate(called_type, 0);
  if (called == NULL) return NULL;
  Py_INCREF(self);
  Py_INCREF(given.body);
  Py_INCREF(given.constants);
  called->tree = tree;
  called->body = given.body;
  called->constants = given.constants;
  called->places = NumbersOf(given.tensors, &called->tensors);
  called->function = called->places == NULL ? -1 : AddTo(tree, &given);
  PyObject* function =
      called->function < 0
          ? NULL
          : PyCFunction_NewEx(&call_def, (PyObject*)called, NULL);
  Py_DECREF((PyObject*)called);
  return function;
}

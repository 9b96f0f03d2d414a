/* kiln._native: kiln.h for Python. Sessions and callables are capsules.
 *
 *   load(path, tensor_class)             opens libkiln.so; before all else
 *   new_shelf() -> shelf                 artifacts that travel, as in kiln.h
 *   open_session(socket, tcp, public_keys, fallback, worker, scratch, device,
 *                ordinal, threads, deadline_ms, shelf,
 *                worker_environment, find_daemon, namespace, tls_ca,
 *                tls_certificate, tls_key, token_file, urgency,
 *                more_daemons) -> session
 *                find_daemon() -> str or None: called on threads that compile
 *                or run, when the daemon is gone
 *   save(shelf) -> bytes                 the bundle of what sessions used
 *   load_bundle(shelf, [sessions], bytes) -> number of artifacts
 *   bundle_devices(bytes) -> int         bits 1 << device
 *   progress() -> (done, total)          kernels of all compiles under way
 *   compile(session, graph, options) -> callable   a serialized
 *                kiln.wire.Graph and kiln.wire.CompileOptions
 *   report(callable) -> dict, text(callable, what) -> str   as in kiln.h
 *   run(callable, inputs, seed) -> list  `inputs`: a list of tensors and ints,
 *                                        which loses the large tensors once
 *                                        nothing reads them; results: tensors,
 *                                        ints, None
 *   segment(callable, unserved, instead, rescue, draw) -> function   as in
 *                                        segment.h
 *   launch_watchers(enter, exit, profiler)   enter(launch, name, ordinal) is
 *                                        called before a launch on that GPU, on
 *                                        the CPU with -1; exit(what that gave)
 *                                        after it; while a profiler is on.
 *                                        `profiler`: torch.autograd.profiler
 *   watch_launches(bool)                 whether without one too
 *   launch_facts(launch) -> dict, launch_source(launch) -> str   from enter to
 *                                        exit
 *   begin_trace(), end_trace() -> str    of the thread's runs, as kiln.h has it
 *   Called                               a class, as in called.h
 *   GraphTree                            a class, as in graph_tree.h
 *   abandon()                            in a forked child: nothing is ended
 *   Error(code, reason, message), Refusal   what all of them raise, as in
 *                                        errors.h
 *
 * Compiles and runs do not hold the GIL. Built for the stable ABI of 3.10. */
#include "client/python/native/called.h"
#include "client/python/native/errors.h"
#include "client/python/native/graph_tree.h"
#include "client/python/native/launches.h"
#include "client/python/native/library.h"
#include "client/python/native/refusal.h"
#include "client/python/native/results.h"
#include "client/python/native/segment.h"
#include "client/python/native/sessions.h"
#include "client/python/native/tensors.h"

static const char kCallable[] = "kiln.callable";
enum { kInline = 32 }; /* inputs without an allocation */
/* Of an input worth taking the GIL for, four bytes each. */
enum { kLargeElements = KILN_LEAST_INPUT_BYTES / 4 };

/* Not 0 in a child that was forked, another number in each: the threads that an
 * end would wait for are not there, so nothing is ended. */
static int abandoned;

int kiln_py_abandoned(void) { return abandoned; }

static PyObject* Abandon(PyObject* self, PyObject* nothing) {
  (void)self;
  (void)nothing;
  ++abandoned;
  Py_RETURN_NONE;
}

static PyObject* Load(PyObject* self, PyObject* args) {
  (void)self;
  const char* path;
  PyObject* tensor_class;
  if (!PyArg_ParseTuple(args, "sO", &path, &tensor_class)) return NULL;
  char message[1024];
  if (kiln_library.kiln_compile_with == NULL &&
      kiln_library_open(path, message, sizeof(message)) != 0) {
    PyErr_SetString(PyExc_ImportError, message);
    return NULL;
  }
  if (kiln_tensors_learn(tensor_class) != 0) return NULL;
  Py_RETURN_NONE;
}

static void FreeCallable(PyObject* capsule) {
  if (abandoned) return;
  kiln_library.kiln_callable_free(PyCapsule_GetPointer(capsule, kCallable));
}

static PyObject* Compile(PyObject* self, PyObject* args) {
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
  return PyCapsule_New(callable, kCallable, &FreeCallable);
}

static PyObject* Report(PyObject* self, PyObject* capsule) {
  (void)self;
  KilnCallable* callable = PyCapsule_GetPointer(capsule, kCallable);
  if (callable == NULL) return NULL;
  KilnReport report = {.struct_size = sizeof(report)};
  KilnStatus* status = kiln_library.kiln_callable_report(callable, &report);
  if (status != NULL) return kiln_py_raise(status);
  return Py_BuildValue(
      "{si si si sL sL si si si}", "artifacts", report.artifacts,
      "by_local_worker", report.by_local_worker, "served_from",
      (int)report.served_from, "compile_us", (long long)report.compile_us,
      "load_us", (long long)report.load_us, "units_built", report.units_built,
      "units_cached", report.units_cached, "daemon_lost", report.daemon_lost);
}

static PyObject* Text(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* capsule;
  int what;
  if (!PyArg_ParseTuple(args, "Oi", &capsule, &what)) return NULL;
  KilnCallable* callable = PyCapsule_GetPointer(capsule, kCallable);
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

/* Result `index`, a tensor. One that views an input keeps them all. */
static PyObject* GiveTensor(const KilnResults* results, int32_t index,
                            const KilnValue* value, PyObject* inputs,
                            DlpackDevice device, const KilnMade* made) {
  PyObject* own = kiln_made_get(made, index);
  if (own != NULL || PyErr_Occurred()) return own;
  KilnMemory* memory = kiln_library.kiln_results_share(results, index);
  PyObject* keep = memory == NULL ? PyList_AsTuple(inputs) : NULL;
  if (memory == NULL && keep == NULL) return NULL;
  PyObject* tensor = kiln_tensors_wrap(value, memory, keep, device);
  Py_XDECREF(keep);
  return tensor;
}

/* The results as Python objects. */
static PyObject* Give(const KilnResults* results, PyObject* inputs,
                      DlpackDevice device, const KilnMade* made) {
  const int32_t count = kiln_library.kiln_results_count(results);
  PyObject* out = PyList_New(count);
  for (int32_t i = 0; out != NULL && i < count; ++i) {
    const KilnValue value = kiln_library.kiln_results_get(results, i);
    PyObject* item = NULL;
    if (value.kind == KILN_INTEGER) {
      item = PyLong_FromLongLong(value.integer);
    } else if (value.kind == KILN_TENSOR) {
      item = GiveTensor(results, i, &value, inputs, device, made);
    } else {
      item = Py_None;
      Py_INCREF(item);
    }
    if (item == NULL || PyList_SetItem(out, i, item) != 0) {
      Py_DECREF(out);
      return NULL;
    }
  }
  return out;
}

/* A call's inputs, as Python and as kiln.h have them. */
typedef struct Given {
  PyObject* list;
  const KilnValue* values;
} Given;

static int IsLarge(const KilnValue* value) {
  int64_t elements = value->kind == KILN_TENSOR;
  for (int32_t d = 0; d < value->rank; ++d) elements *= value->sizes[d];
  return elements >= kLargeElements;
}

/* The run reads an input no more: if nobody else has it, its memory is free for
 * what comes. Without the GIL. */
static void OnInputDone(void* context, int32_t index) {
  const Given* given = context;
  if (!IsLarge(&given->values[index])) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_INCREF(Py_None);
  PyList_SetItem(given->list, index, Py_None);
  PyGILState_Release(state);
}

/* Raises what ended a run. Always NULL. */
static PyObject* RaiseOfRun(KilnStatus* status) {
  enum { kResourceExhausted = 8 };
  if (kiln_library.kiln_status_code(status) != kResourceExhausted ||
      !kiln_refusal_raise()) {
    return kiln_py_raise(status);
  }
  kiln_library.kiln_status_free(status);
  return NULL;
}

/* Runs on `values`, which are on `device`. */
static PyObject* RunOn(KilnCallable* callable, PyObject* inputs,
                       const KilnValue* values, Py_ssize_t count,
                       DlpackDevice device, KilnRunOptions* options,
                       const KilnMade* made) {
  Given given = {inputs, values};
  options->on_input_done = &OnInputDone;
  options->input_context = &given;
  KilnResults* results = NULL;
  KilnStatus* status;
  kiln_refusal_forget();
  KilnWatch watch = {.ordinal =
                         device.type == kDlpackCuda ? device.ordinal : -1};
  if (kiln_launches_are_watched()) kiln_launches_watch(&watch, options);
  Py_BEGIN_ALLOW_THREADS;
  status = kiln_library.kiln_run_with(callable, values, (int32_t)count, options,
                                      &results);
  kiln_py_compile_ended(); /* a guard may have failed */
  Py_END_ALLOW_THREADS;
  if (status != NULL) {
    kiln_launches_forget(&watch);
    return RaiseOfRun(status);
  }
  PyObject* out =
      kiln_launches_raise(&watch) ? NULL : Give(results, inputs, device, made);
  kiln_library.kiln_results_free(results);
  return out;
}

/* Reads the inputs into `values` and runs. The device of a call is that of its
 * first tensor; one without a tensor is the CPU's. */
static PyObject* ReadAndRun(KilnCallable* callable, PyObject* inputs,
                            KilnValue* values, Py_ssize_t count,
                            uint64_t seed) {
  DlpackDevice device = {-1, 0};
  if (kiln_tensors_read(callable, inputs, count, values, &device) != 0) {
    return NULL;
  }
  KilnRunOptions options = {.struct_size = sizeof(options), .seed = seed};
  KilnMade made = {.room = 0};
  if (device.type != kDlpackCuda) {
    device.type = kDlpackCpu;
    return RunOn(callable, inputs, values, count, device, &options, &made);
  }
  KilnAllocator allocator;
  if (kiln_tensors_stream(device.ordinal, &options.stream) != 0) return NULL;
  kiln_tensors_lend(device.ordinal, &allocator);
  options.allocator = &allocator;
  kiln_made_offer(&made, device.ordinal, &options);
  PyObject* out =
      RunOn(callable, inputs, values, count, device, &options, &made);
  kiln_made_free(&made);
  return out;
}

PyObject* kiln_py_run(PyObject* capsule, PyObject* inputs, uint64_t seed) {
  KilnCallable* callable = PyCapsule_GetPointer(capsule, kCallable);
  if (callable == NULL) return NULL;
  const Py_ssize_t count = PyList_Size(inputs);
  KilnValue inline_values[kInline];
  KilnValue* values = inline_values;
  if (count > kInline) {
    values = PyMem_Malloc((size_t)count * sizeof(KilnValue));
    if (values == NULL) return PyErr_NoMemory();
  }
  PyObject* out = ReadAndRun(callable, inputs, values, count, seed);
  if (values != inline_values) PyMem_Free(values);
  return out;
}

static PyObject* Run(PyObject* self, PyObject* const* args, Py_ssize_t given) {
  (void)self;
  if (given != 3 || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "due: callable, list of inputs, seed");
    return NULL;
  }
  const uint64_t seed = PyLong_AsUnsignedLongLongMask(args[2]);
  if (PyErr_Occurred()) return NULL;
  return kiln_py_run(args[0], args[1], seed);
}

static PyMethodDef methods[] = {
    {"load", &Load, METH_VARARGS, "Opens the library; once, before all else."},
    {"open_session", &kiln_py_open_session, METH_VARARGS, "A session."},
    {"new_shelf", &kiln_py_new_shelf, METH_NOARGS, "A shelf of artifacts."},
    {"save", &kiln_py_save, METH_O, "A shelf's used artifacts as bytes."},
    {"load_bundle", &kiln_py_load_bundle, METH_VARARGS,
     "Puts a bundle's artifacts on a shelf; their number."},
    {"bundle_devices", &kiln_py_bundle_devices, METH_VARARGS,
     "The devices that a bundle is for."},
    {"progress", &kiln_py_progress, METH_NOARGS,
     "Kernels of all compiles under way: (done, total)."},
    {"compile", &Compile, METH_VARARGS, "A callable of a serialized graph."},
    {"abandon", &Abandon, METH_NOARGS, "After a fork: frees nothing more."},
    {"report", &Report, METH_O, "What the latest compile took, as a dict."},
    {"text", &Text, METH_VARARGS,
     "The plan (1), sources (2), counters (3), what\n"
     "the daemon said when a local worker compiled (4)."},
    {"run", (PyCFunction)(void (*)(void)) & Run, METH_FASTCALL,
     "Runs a callable on a list of inputs."},
    {"launch_watchers", &kiln_py_launch_watchers, METH_VARARGS,
     "Who is told of launches."},
    {"watch_launches", &kiln_py_watch_launches, METH_O,
     "Whether they are told where no profiler runs."},
    {"launch_facts", &kiln_py_launch_facts, METH_O,
     "What is known of a launch that goes on, as a dict."},
    {"launch_source", &kiln_py_launch_source, METH_O,
     "The source of its kernel."},
    {"begin_trace", &kiln_py_begin_trace, METH_NOARGS,
     "Has this thread's runs traced."},
    {"end_trace", &kiln_py_end_trace, METH_NOARGS,
     "What its runs did since begin_trace, as JSON."},
    {"segment", (PyCFunction)(void (*)(void)) & kiln_py_segment, METH_FASTCALL,
     "A function that runs a callable, with PyTorch beside."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT,
                                        "_native",
                                        "kiln.h for Python.",
                                        -1,
                                        methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

/* Takes `object`, which may be NULL with an exception set. */
static int Add(PyObject* module, const char* name, PyObject* object) {
  if (object == NULL) return -1;
  const int failed = PyModule_AddObject(module, name, object);
  if (failed != 0) Py_DECREF(object);
  return failed;
}

PyMODINIT_FUNC PyInit__native(void) {
  PyObject* module = PyModule_Create(&module_def);
  if (module == NULL) return NULL;
  if (kiln_py_add_errors(module) != 0 ||
      Add(module, "Called", kiln_py_called()) != 0 ||
      Add(module, "GraphTree", kiln_py_graph_tree_class()) != 0) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}

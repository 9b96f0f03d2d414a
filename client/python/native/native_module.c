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
 *   name_kernels(callable, name_of)      as in callables.h
 *   report(callable) -> dict, text(callable, what) -> str   as in kiln.h
 *   run(callable, inputs, seed) -> list  `inputs`: a list of tensors and ints,
 *                                        which loses the large tensors once
 *                                        nothing reads them; results: tensors,
 *                                        ints, None
 *   segment(callable, unserved, instead, rescue, draw) -> function   as in
 *                                        segment.h
 *   launch_watchers(enter, exit, profiler)   enter(launch, label, ordinal, name_of) is
 *                                        called before a launch on that GPU, on
 *                                        the CPU with -1; exit(what that gave)
 *                                        after it; while a profiler is on.
 *                                        `profiler`: torch.autograd.profiler
 *   watch_launches(bool)                 whether without one too
 *   launch_facts(launch) -> dict, launch_source(launch) -> str   from enter to
 *                                        exit
 *   begin_trace(), end_trace() -> str    of the thread's runs, as kiln.h has it
 *   capturing(on)    whether the thread's runs are captured: none is traced
 *   Called                               a class, as in called.h
 *   GraphTree                            a class, as in graph_tree.h
 *   abandon()                            in a forked child: nothing is ended
 *   Error(code, reason, message), Refusal   what all of them raise, as in
 *                                        errors.h
 *
 * Compiles and runs do not hold the GIL. Built for the stable ABI of 3.10. */
#include "client/python/native/callables.h"
#include "client/python/native/called.h"
#include "client/python/native/errors.h"
#include "client/python/native/forked.h"
#include "client/python/native/graph_tree.h"
#include "client/python/native/launches.h"
#include "client/python/native/library.h"
#include "client/python/native/runs.h"
#include "client/python/native/segment.h"
#include "client/python/native/sessions.h"
#include "client/python/native/storages.h"
#include "client/python/native/tensors.h"

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
    {"compile", &kiln_py_compile, METH_VARARGS,
     "A callable of a serialized graph."},
    {"abandon", &kiln_py_abandon, METH_NOARGS,
     "After a fork: frees nothing more."},
    {"name_kernels", &kiln_py_name_kernels, METH_VARARGS,
     "How a callable's kernels are called for watchers of launches."},
    {"report", &kiln_py_report, METH_O,
     "What the latest compile took, as a dict."},
    {"text", &kiln_py_text, METH_VARARGS,
     "The plan (1), sources (2), counters (3), what\n"
     "the daemon said when a local worker compiled (4)."},
    {"run", (PyCFunction)(void (*)(void)) & kiln_py_run_method, METH_FASTCALL,
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
    {"capturing", &kiln_py_capturing, METH_O,
     "Whether the thread's runs are captured from here on, so that none is "
     "traced."},
    {"end_trace", &kiln_py_end_trace, METH_NOARGS,
     "What its runs did since begin_trace, as JSON."},
    {"segment", (PyCFunction)(void (*)(void)) & kiln_py_segment, METH_FASTCALL,
     "A function that runs a callable, with PyTorch beside."},
    {"share_storages", &kiln_py_share_storages, METH_O,
     "Whether this thread's results are one storage where they are one block."},
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

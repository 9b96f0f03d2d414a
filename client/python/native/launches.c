#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "client/python/native/launches.h"

#include <dlfcn.h>

#include "client/python/native/errors.h"
#include "client/python/native/library.h"

/* The name of a capsule while its launch goes on, and from then on. */
static const char kLaunch[] = "kiln.launch";
static const char kEnded[] = "kiln.launch, which has ended";

int kiln_launches_wanted;
int (*kiln_launches_profiler_on)(void);

static PyObject *told_before, *told_after, *told_of_replay;
static int hooks_wanted, traces; /* what kiln_launches_wanted counts */

/* Of this thread's runs; NULL: they are not traced. */
static _Thread_local KilnTrace* trace;
/* While runs are captured: a capture cannot be waited for. */
static _Thread_local int captures;

/* torch::autograd::profiler::isProfilerEnabledInMainThread(): whether a profiler
 * is on, in any thread. Four instructions. */
static const char kProfilerOn[] =
    "_ZN5torch8autograd8profiler29isProfilerEnabledInMainThreadEv";
static _Bool (*profiler_of_torch)(void);
static int ProfilerOfTorch(void) { return profiler_of_torch(); }

/* What every profiler of torch sets, where the function is not there. */
static PyObject* profiler_module;
static int ProfilerOfModule(void) {
  PyObject* on =
      PyObject_GetAttrString(profiler_module, "_is_profiler_enabled");
  const int is_on = on != NULL && PyObject_IsTrue(on) == 1;
  Py_XDECREF(on);
  PyErr_Clear();
  return is_on;
}

static void FindProfiler(PyObject* module) {
  void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void* found = torch != NULL ? dlsym(torch, kProfilerOn) : NULL;
  if (found != NULL) {
    *(void**)&profiler_of_torch = found;
    kiln_launches_profiler_on = &ProfilerOfTorch;
    return;
  }
  Py_INCREF(module);
  profiler_module = module;
  kiln_launches_profiler_on = &ProfilerOfModule;
}

PyObject* kiln_py_launch_watchers(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *enter, *exit, *replay, *module;
  if (!PyArg_ParseTuple(args, "OOOO", &enter, &exit, &replay, &module)) {
    return NULL;
  }
  Py_INCREF(enter);
  Py_INCREF(exit);
  Py_INCREF(replay);
  Py_XDECREF(told_before);
  told_before = enter;
  Py_XDECREF(told_after);
  told_after = exit;
  Py_XDECREF(told_of_replay);
  told_of_replay = replay;
  if (kiln_launches_profiler_on == NULL) FindProfiler(module);
  Py_RETURN_NONE;
}

PyObject* kiln_py_watch_launches(PyObject* self, PyObject* on) {
  (void)self;
  const int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return NULL;
  hooks_wanted = wanted;
  kiln_launches_wanted = hooks_wanted + traces;
  Py_RETURN_NONE;
}

PyObject* kiln_py_begin_trace(PyObject* self, PyObject* nothing) {
  (void)self;
  (void)nothing;
  if (trace != NULL) {
    PyErr_SetString(PyExc_RuntimeError,
                    "this thread's runs are traced already");
    return NULL;
  }
  trace = kiln_library.kiln_trace_new();
  kiln_launches_wanted = hooks_wanted + ++traces;
  Py_RETURN_NONE;
}

PyObject* kiln_py_end_trace(PyObject* self, PyObject* nothing) {
  (void)self;
  (void)nothing;
  if (trace == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "this thread's runs are not traced");
    return NULL;
  }
  const size_t length = kiln_library.kiln_trace_json(trace, NULL, 0);
  char* buffer = PyMem_Malloc(length + 1);
  PyObject* json = NULL;
  if (buffer != NULL) {
    kiln_library.kiln_trace_json(trace, buffer, length + 1);
    json = PyUnicode_FromStringAndSize(buffer, (Py_ssize_t)length);
  }
  PyMem_Free(buffer);
  kiln_library.kiln_trace_free(trace);
  trace = NULL;
  kiln_launches_wanted = hooks_wanted + --traces;
  return json != NULL || PyErr_Occurred() ? json : PyErr_NoMemory();
}

PyObject* kiln_py_capturing(PyObject* self, PyObject* on) {
  (void)self;
  const int begins = PyObject_IsTrue(on);
  if (begins < 0) return NULL;
  captures += begins ? 1 : -1;
  Py_RETURN_NONE;
}

static void Keep(KilnWatch* watch) {
  if (watch->type == NULL) {
    PyErr_Fetch(&watch->type, &watch->error, &watch->trace);
  } else {
    PyErr_Clear();
  }
}

/* What exit is to be given: what enter gave, with the launch's capsule. */
static PyObject* Enter(KilnLaunch* launch, const KilnWatch* watch) {
  PyObject* capsule = PyCapsule_New(launch, kLaunch, NULL);
  if (capsule == NULL) return NULL;
  PyObject* given = PyObject_CallFunction(
      told_before, "OsiO", capsule, kiln_library.kiln_launch_name(launch),
      watch->ordinal, watch->name_of ? watch->name_of : Py_None);
  PyObject* both = given != NULL ? PyTuple_Pack(2, capsule, given) : NULL;
  if (both == NULL) PyCapsule_SetName(capsule, kEnded);
  Py_XDECREF(given);
  Py_DECREF(capsule);
  return both;
}

static void Exit(KilnWatch* watch) {
  PyObject* out = PyObject_CallFunctionObjArgs(
      told_after, PyTuple_GetItem(watch->entered, 1), NULL);
  if (out == NULL) Keep(watch);
  Py_XDECREF(out);
  PyCapsule_SetName(PyTuple_GetItem(watch->entered, 0), kEnded);
  Py_CLEAR(watch->entered);
}

/* Without the GIL. Once a watcher has raised, the run's other launches are not
 * told of. */
static void OnLaunch(void* context, KilnLaunch* launch, int32_t after) {
  KilnWatch* watch = context;
  const PyGILState_STATE state = PyGILState_Ensure();
  if (after) {
    if (watch->entered != NULL) Exit(watch);
  } else if (watch->type == NULL) {
    watch->entered = Enter(launch, watch);
    if (watch->entered == NULL) Keep(watch);
  }
  PyGILState_Release(state);
}

static int CallAndDrop(PyObject* function, PyObject* argument) {
  PyObject* out = PyObject_CallFunctionObjArgs(function, argument, NULL);
  Py_XDECREF(out);
  return out == NULL ? -1 : 0;
}

/* Adds a replay that has begun at `start` to the thread's trace, with the names of
 * the kernels in it. */
static int AddToTrace(PyObject* replay, int64_t start) {
  PyObject* names = PyObject_CallMethod(replay, "wait", NULL);
  if (names == NULL) return -1;
  const Py_ssize_t count = PyTuple_Size(names);
  const char** texts =
      count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof(*texts));
  int failed = texts == NULL;
  for (Py_ssize_t i = 0; !failed && i < count; ++i) {
    texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
    failed = texts[i] == NULL;
  }
  if (!failed) {
    kiln_library.kiln_trace_add_replay(trace, start, texts, (int32_t)count);
  } else if (!PyErr_Occurred()) {
    PyErr_NoMemory();
  }
  PyMem_Free(texts);
  Py_DECREF(names);
  return failed ? -1 : 0;
}

static int LaunchTraced(PyObject* launch, PyObject* replay) {
  if (trace == NULL) return CallAndDrop(launch, NULL);
  const int64_t start = kiln_library.kiln_trace_now();
  if (CallAndDrop(launch, NULL) != 0) return -1;
  return AddToTrace(replay, start);
}

int kiln_launches_replay(PyObject* launch, PyObject* replay) {
  if (told_of_replay == NULL) return LaunchTraced(launch, replay);
  PyObject* entered =
      PyObject_CallFunctionObjArgs(told_of_replay, replay, NULL);
  if (entered == NULL) return -1;
  const int failed = LaunchTraced(launch, replay);
  PyObject *type, *error, *where;
  PyErr_Fetch(&type, &error, &where); /* of the launch: exit is called too */
  const int exit_failed = CallAndDrop(told_after, entered);
  Py_DECREF(entered);
  if (type == NULL) return failed | exit_failed;
  PyErr_Clear();
  PyErr_Restore(type, error, where);
  return -1;
}

void kiln_launches_watch(KilnWatch* watch, KilnRunOptions* options) {
  options->trace = captures > 0 ? NULL : trace;
  if (told_before == NULL) return;
  options->on_launch = &OnLaunch;
  options->launch_context = watch;
}

int kiln_launches_raise(KilnWatch* watch) {
  if (watch->type == NULL) return 0;
  PyErr_Restore(watch->type, watch->error, watch->trace);
  watch->type = NULL;
  return 1;
}

void kiln_launches_forget(KilnWatch* watch) {
  Py_CLEAR(watch->type);
  Py_CLEAR(watch->error);
  Py_CLEAR(watch->trace);
}

static PyObject* Integers(const int64_t* numbers, int32_t count) {
  PyObject* out = PyTuple_New(count);
  for (int32_t i = 0; out != NULL && i < count; ++i) {
    PyObject* number = PyLong_FromLongLong(numbers[i]);
    if (number == NULL || PyTuple_SetItem(out, i, number) != 0) Py_CLEAR(out);
  }
  return out;
}

/* (dtype's number, sizes) of a tensor, None of what is none. */
static PyObject* Argument(const KilnValue* value) {
  if (value->kind != KILN_TENSOR) Py_RETURN_NONE;
  return Py_BuildValue("iN", (int)value->dtype,
                       Integers(value->sizes, value->rank));
}

static PyObject* Arguments(const KilnLaunchFacts* facts) {
  PyObject* out = PyTuple_New(facts->argument_count);
  for (int32_t i = 0; out != NULL && i < facts->argument_count; ++i) {
    PyObject* argument = Argument(&facts->arguments[i]);
    if (argument == NULL || PyTuple_SetItem(out, i, argument) != 0) {
      Py_CLEAR(out);
    }
  }
  return out;
}

/* (name, operator, stack trace) of each node that the launch does work of. */
static PyObject* Nodes(const KilnLaunchFacts* facts) {
  PyObject* out = PyTuple_New(facts->node_count);
  for (int32_t i = 0; out != NULL && i < facts->node_count; ++i) {
    const KilnNode* node = &facts->nodes[i];
    PyObject* words =
        Py_BuildValue("sss", node->name, node->op, node->stack_trace);
    if (words == NULL || PyTuple_SetItem(out, i, words) != 0) Py_CLEAR(out);
  }
  return out;
}

/* 0; or -1 with an exception set. */
static int FactsOf(PyObject* capsule, KilnLaunchFacts* facts) {
  KilnLaunch* launch = PyCapsule_GetPointer(capsule, kLaunch);
  if (launch == NULL) return -1;
  facts->struct_size = sizeof(*facts);
  KilnStatus* status = kiln_library.kiln_launch_facts(launch, facts);
  if (status == NULL) return 0;
  kiln_py_raise(status);
  return -1;
}

PyObject* kiln_py_launch_facts(PyObject* self, PyObject* capsule) {
  (void)self;
  KilnLaunchFacts facts = {0};
  if (FactsOf(capsule, &facts) != 0) return NULL;
  return Py_BuildValue(
      "{ss ss sN sK s(LLL) s(III) sI sI sN ss sN sL sL}", "symbol",
      facts.symbol, "operators", facts.operators, "nodes", Nodes(&facts),
      "stream", (unsigned long long)(uintptr_t)facts.stream, "grid",
      (long long)facts.grid[0], (long long)facts.grid[1],
      (long long)facts.grid[2], "block", facts.block[0], facts.block[1],
      facts.block[2], "shared_bytes", facts.shared_bytes, "cluster",
      facts.cluster, "arguments", Arguments(&facts), "mapping", facts.mapping,
      "extents", Integers(facts.extents, facts.extent_count), "bytes_read",
      (long long)facts.bytes_read, "bytes_written",
      (long long)facts.bytes_written);
}

PyObject* kiln_py_launch_source(PyObject* self, PyObject* capsule) {
  (void)self;
  KilnLaunchFacts facts = {0};
  if (FactsOf(capsule, &facts) != 0) return NULL;
  return PyUnicode_DecodeUTF8(facts.source, (Py_ssize_t)facts.source_length,
                              "replace");
}

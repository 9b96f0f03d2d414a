#include "client/python/native/runs.h"

#include "client/python/native/callables.h"
#include "client/python/native/errors.h"
#include "client/python/native/launches.h"
#include "client/python/native/library.h"
#include "client/python/native/reading.h"
#include "client/python/native/refusal.h"
#include "client/python/native/results.h"
#include "client/python/native/sessions.h"
#include "client/python/native/storages.h"
#include "client/python/native/tensors.h"

enum { kInline = 32 }; /* inputs without an allocation */
/* Of an input worth taking the GIL for, four bytes each. */
enum { kLargeElements = KILN_LEAST_INPUT_BYTES / 4 };

static int IsEmpty(const KilnValue* value) {
  for (int32_t d = 0; d < value->rank; ++d) {
    if (value->sizes[d] == 0) return 1;
  }
  return 0;
}

/* Result `index`, a tensor. One that views an input keeps them all; an empty one
 * has no memory. */
static PyObject* GiveTensor(const KilnResults* results, int32_t index,
                            const KilnValue* value, PyObject* inputs,
                            DlpackDevice device, const KilnMade* made) {
  PyObject* own = kiln_made_get(made, index);
  if (own != NULL || PyErr_Occurred()) return own;
  KilnMemory* memory = kiln_library.kiln_results_share(results, index);
  const int views = memory == NULL && !IsEmpty(value);
  PyObject* keep = views ? PyList_AsTuple(inputs) : NULL;
  if (views && keep == NULL) return NULL;
  PyObject* tensor = kiln_tensors_wrap(value, memory, keep, device);
  Py_XDECREF(keep);
  return tensor;
}

/* The results as Python objects. */
static PyObject* Give(const KilnResults* results, PyObject* inputs,
                      DlpackDevice device, const KilnMade* made) {
  const int32_t count = kiln_library.kiln_results_count(results);
  PyObject* out = PyList_New(count);
  PyObject* storages = NULL;
  if (out != NULL && kiln_storages_are_shared()) {
    storages = PyDict_New();
    if (storages == NULL) Py_CLEAR(out);
  }
  for (int32_t i = 0; out != NULL && i < count; ++i) {
    const KilnValue value = kiln_library.kiln_results_get(results, i);
    PyObject* item = NULL;
    if (value.kind == KILN_INTEGER) {
      item = PyLong_FromLongLong(value.integer);
    } else if (value.kind == KILN_TENSOR) {
      item = GiveTensor(results, i, &value, inputs, device, made);
      if (item != NULL && storages != NULL &&
          kiln_storages_put(results, i, item, storages, device) != 0) {
        Py_CLEAR(item);
      }
    } else {
      item = Py_None;
      Py_INCREF(item);
    }
    if (item == NULL || PyList_SetItem(out, i, item) != 0) Py_CLEAR(out);
  }
  Py_XDECREF(storages);
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
static PyObject* RunOn(PyObject* capsule, PyObject* inputs,
                       const KilnValue* values, Py_ssize_t count,
                       DlpackDevice device, KilnRunOptions* options,
                       const KilnMade* made) {
  Given given = {inputs, values};
  options->on_input_done = &OnInputDone;
  options->input_context = &given;
  KilnResults* results = NULL;
  KilnStatus* status;
  kiln_refusal_forget();
  KilnCallable* callable = kiln_py_callable(capsule);
  KilnWatch watch; /* where somebody watches */
  const int is_watched = kiln_launches_are_watched();
  if (is_watched) {
    watch = (KilnWatch){
        .ordinal = device.type == kDlpackCuda ? device.ordinal : -1,
        .name_of = kiln_py_callable_name_of(capsule)};
    kiln_launches_watch(&watch, options);
  }
  Py_BEGIN_ALLOW_THREADS;
  status = kiln_library.kiln_run_with(callable, values, (int32_t)count, options,
                                      &results);
  kiln_py_compile_ended(); /* a guard may have failed */
  Py_END_ALLOW_THREADS;
  if (status != NULL) {
    if (is_watched) kiln_launches_forget(&watch);
    return RaiseOfRun(status);
  }
  const int raises = is_watched && kiln_launches_raise(&watch);
  PyObject* out = raises ? NULL : Give(results, inputs, device, made);
  kiln_library.kiln_results_free(results);
  return out;
}

/* Reads the inputs into `values` and runs. The device of a call is that of its
 * first tensor; without a tensor it is the callable's. */
static PyObject* ReadAndRun(PyObject* capsule, PyObject* inputs,
                            KilnValue* values, Py_ssize_t count,
                            KilnSeed seed) {
  KilnCallable* callable = kiln_py_callable(capsule);
  DlpackDevice device = {-1, 0};
  if (kiln_tensors_read(callable, inputs, count, values, &device) != 0) {
    return NULL;
  }
  KilnRunOptions options = {.struct_size = sizeof(options),
                            .seed = seed.number,
                            .seed_slot = seed.slot};
  KilnMade made = {.room = 0};
  if (device.type < 0) device = kiln_py_callable_device(capsule);
  if (device.type != kDlpackCuda) {
    return RunOn(capsule, inputs, values, count, device, &options, &made);
  }
  KilnAllocator allocator;
  if (kiln_tensors_stream(device.ordinal, &options.stream) != 0) return NULL;
  kiln_tensors_lend(device.ordinal, &allocator);
  options.allocator = &allocator;
  kiln_made_offer(&made, device.ordinal, &options);
  PyObject* out =
      RunOn(capsule, inputs, values, count, device, &options, &made);
  kiln_made_free(&made);
  return out;
}

int kiln_py_read_seed(PyObject* drawn, KilnSeed* seed) {
  *seed = (KilnSeed){0, NULL};
  if (!PyLong_Check(drawn)) return kiln_reading_address(drawn, &seed->slot);
  seed->number = PyLong_AsUnsignedLongLongMask(drawn);
  return PyErr_Occurred() ? -1 : 0;
}

PyObject* kiln_py_run(PyObject* capsule, PyObject* inputs, KilnSeed seed) {
  if (kiln_py_callable(capsule) == NULL) return NULL;
  const Py_ssize_t count = PyList_Size(inputs);
  KilnValue inline_values[kInline];
  KilnValue* values = inline_values;
  if (count > kInline) {
    values = PyMem_Malloc((size_t)count * sizeof(KilnValue));
    if (values == NULL) return PyErr_NoMemory();
  }
  PyObject* out = ReadAndRun(capsule, inputs, values, count, seed);
  if (values != inline_values) PyMem_Free(values);
  return out;
}

PyObject* kiln_py_run_method(PyObject* self, PyObject* const* args,
                             Py_ssize_t given) {
  (void)self;
  if (given != 3 || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError,
                    "expected: callable, list of inputs, seed");
    return NULL;
  }
  KilnSeed seed;
  if (kiln_py_read_seed(args[2], &seed) != 0) return NULL;
  return kiln_py_run(args[0], args[1], seed);
}

#include "client/python/native/graph_recording.h"

#include <string.h>

#include "client/python/native/graph_torch.h"
#include "client/python/native/launches.h"
#include "client/python/native/reading.h"

struct KilnCached {
  PyObject* tensor; /* NULL: none */
  void* storage;
  /* When nobody else had it. */
  Py_ssize_t references;
  long tensor_uses;
  long storage_uses;
  /* As it was made. */
  void* address;
  int32_t rank;  /* -1: its form is not known */
  int64_t* form; /* sizes, then strides */
};

struct KilnRecording {
  PyObject* outputs; /* of the capture, till the first run */
  PyObject* kept;    /* those whose memory is not the pool's; list */
  PyObject* launch;
  PyObject* slots;
  PyObject* copied;
  PyObject* narrow;
  PyObject* metadata;
  PyObject* replay;
  KilnCached* cached;
  int32_t count; /* of outputs */
  KilnRecordings* all;
  KilnRecording *before, *after; /* among them */
};

static PyObject *hooks_name, *as_strided_name;

static void Join(KilnRecording* recording, KilnRecordings* all) {
  recording->all = all;
  recording->after = all->first;
  if (all->first != NULL) all->first->before = recording;
  all->first = recording;
}

static void Leave(KilnRecording* recording) {
  if (recording->all == NULL) return;
  if (recording->after != NULL) recording->after->before = recording->before;
  if (recording->before != NULL) {
    recording->before->after = recording->after;
  } else {
    recording->all->first = recording->after;
  }
}

int kiln_recordings_visit(const KilnRecordings* all, visitproc visit,
                          void* arg) {
  for (KilnRecording* one = all->first; one != NULL; one = one->after) {
    PyObject* const parts[] = {one->outputs, one->kept,   one->launch,
                               one->slots,   one->copied, one->narrow,
                               one->metadata, one->replay};
    for (int i = 0; i < 8; ++i) Py_VISIT(parts[i]);
    for (int32_t i = 0; i < one->count; ++i) Py_VISIT(one->cached[i].tensor);
  }
  return 0;
}

KilnRecording* kiln_recording_of(PyObject* made, KilnRecordings* all) {
  if (hooks_name == NULL) {
    as_strided_name = PyUnicode_InternFromString("as_strided");
    hooks_name = PyUnicode_InternFromString("_backward_hooks");
    if (as_strided_name == NULL || hooks_name == NULL) return NULL;
  }
  KilnRecording* recording = PyMem_Calloc(1, sizeof(KilnRecording));
  if (recording == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  PyObject** const parts[] = {&recording->outputs, &recording->launch,
                              &recording->slots,   &recording->copied,
                              &recording->narrow,  &recording->metadata,
                              &recording->replay};
  for (Py_ssize_t i = 0; i < 7; ++i) {
    PyObject* part = PyTuple_GetItem(made, i);
    if (part == NULL) {
      kiln_recording_free(recording);
      return NULL;
    }
    Py_INCREF(part);
    *parts[i] = part;
  }
  recording->count = (int32_t)PyList_Size(recording->outputs);
  recording->kept = PyList_New(recording->count);
  recording->cached = PyMem_Calloc(recording->count + 1, sizeof(KilnCached));
  if (recording->kept == NULL || recording->cached == NULL) {
    kiln_recording_free(recording);
    return NULL;
  }
  Join(recording, all);
  return recording;
}

void kiln_recording_free(KilnRecording* recording) {
  Leave(recording);
  for (int32_t i = 0; recording->cached != NULL && i < recording->count; ++i) {
    kiln_recording_drop_cached(recording, i);
  }
  PyMem_Free(recording->cached);
  Py_XDECREF(recording->outputs);
  Py_XDECREF(recording->kept);
  Py_XDECREF(recording->launch);
  Py_XDECREF(recording->slots);
  Py_XDECREF(recording->copied);
  Py_XDECREF(recording->narrow);
  Py_XDECREF(recording->metadata);
  Py_XDECREF(recording->replay);
  PyMem_Free(recording);
}

PyObject* kiln_recording_outputs(KilnRecording* recording) {
  return recording->outputs;
}

static int IsOnDevice(PyObject* tensor) {
  PyObject* on = PyObject_GetAttrString(tensor, "is_cuda");
  const int is = on == NULL ? -1 : PyObject_IsTrue(on);
  Py_XDECREF(on);
  return is;
}

int kiln_graph_tell_outputs(PyObject* outputs, KilnGraphTell tell, void* to) {
  const Py_ssize_t count = PyList_Size(outputs);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GetItem(outputs, i);
    KilnGraphOutput output = {0, 0, NULL, NULL};
    if (PyObject_HasAttrString(item, "untyped_storage")) {
      void* address = NULL;
      output.is_tensor = 1;
      output.on_device = IsOnDevice(item);
      output.storage = kiln_graph_storage_of(item, &address);
      output.storage_address = address;
      if (output.storage == NULL || output.on_device < 0) return -1;
    }
    tell(to, &output);
  }
  return 0;
}

static int Launch(KilnRecording* recording) {
  if (kiln_launches_are_watched()) {
    return kiln_launches_replay(recording->launch, recording->replay);
  }
  PyObject* out = PyObject_CallFunctionObjArgs(recording->launch, NULL);
  Py_XDECREF(out);
  return out == NULL ? -1 : 0;
}

/* What rules VALUE and AS_IS give is kept; the rest is the pool's, and goes. */
static int Keep(KilnRecording* recording, const KilnGraphRule* rules) {
  for (int32_t i = 0; i < recording->count; ++i) {
    const int keep = rules[i].kind <= KILN_GRAPH_AS_IS;
    PyObject* item = keep ? PyList_GetItem(recording->outputs, i) : Py_None;
    Py_INCREF(item);
    if (PyList_SetItem(recording->kept, i, item) != 0) return -1;
  }
  return 0;
}

int kiln_recording_first_run(KilnRecording* recording, KilnGraphCaller* caller,
                             const KilnGraphRule* rules) {
  if (Keep(recording, rules) != 0 || Launch(recording) != 0) return -1;
  caller->outputs = recording->outputs;
  recording->outputs = NULL;
  return 0;
}

/* What is copied of input `item`; a new reference. */
static PyObject* Narrowed(KilnRecording* recording, Py_ssize_t place,
                          PyObject* item) {
  PyObject* narrow = PyList_GetItem(recording->narrow, place);
  if (narrow != Py_None) {
    return PyObject_CallMethodObjArgs(item, as_strided_name,
                                      PyTuple_GetItem(narrow, 0),
                                      PyTuple_GetItem(narrow, 1), NULL);
  }
  Py_INCREF(item);
  return item;
}

static int CopyInputs(KilnRecording* recording, PyObject* inputs) {
  const Py_ssize_t count = PyList_Size(recording->copied);
  if (count == 0) return 0;
  PyObject* from = PyList_New(count);
  if (from == NULL) return -1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Py_ssize_t at =
        PyLong_AsSsize_t(PyList_GetItem(recording->copied, i));
    PyObject* item = PyList_GetItem(inputs, at);
    PyObject* part = item == NULL ? NULL : Narrowed(recording, i, item);
    if (part == NULL || PyList_SetItem(from, i, part) != 0) {
      Py_DECREF(from);
      return -1;
    }
  }
  const int failed = kiln_graph_copy(recording->slots, from);
  Py_DECREF(from);
  return failed;
}

/* Whether the form of a tensor can be read. */
static int ReadForm(PyObject* tensor, KilnValue* value) {
  DlpackDevice device;
  if (kiln_reading_read(tensor, (uintptr_t)tensor >> 6, value, &device) == 0) {
    return 1;
  }
  /* Of an element type that Kiln has not all else is told. */
  const int is_told = PyErr_ExceptionMatches(PyExc_TypeError);
  PyErr_Clear();
  return is_told;
}

static void KeepForm(KilnCached* cached) {
  KilnValue value = {0};
  cached->rank = -1;
  if (!ReadForm(cached->tensor, &value)) return;
  const size_t bytes = (size_t)value.rank * sizeof(int64_t);
  cached->form = PyMem_Malloc(2 * bytes + 1);
  if (cached->form == NULL) return;
  memcpy(cached->form, value.sizes, bytes);
  memcpy(cached->form + value.rank, value.strides, bytes);
  cached->address = value.data;
  cached->rank = value.rank;
}

static int HasItsForm(const KilnCached* cached) {
  KilnValue value = {0};
  if (cached->rank < 0) return 1;
  if (!ReadForm(cached->tensor, &value)) return 0;
  const size_t bytes = (size_t)cached->rank * sizeof(int64_t);
  return value.data == cached->address && value.rank == cached->rank &&
         memcmp(value.sizes, cached->form, bytes) == 0 &&
         memcmp(value.strides, cached->form + cached->rank, bytes) == 0;
}

/* What the program has done to a tensor itself, such as unsqueeze_ and
 * requires_grad_, is of that tensor: then another one is given. */
static void DropChanged(KilnRecording* recording, int32_t index) {
  const KilnCached* cached = &recording->cached[index];
  if (cached->tensor == NULL) return;
  if (!HasItsForm(cached) || kiln_graph_is_followed(cached->tensor)) {
    kiln_recording_drop_cached(recording, index);
  }
}

/* The tensor that is given each time; a new reference. */
static PyObject* GiveCached(KilnRecording* recording, int32_t index) {
  KilnCached* cached = &recording->cached[index];
  DropChanged(recording, index);
  if (cached->tensor == NULL) {
    PyObject* metadata = PyList_GetItem(recording->metadata, index);
    PyObject* tensor = kiln_graph_tensor_on(metadata, NULL);
    if (tensor == NULL) return NULL;
    void* address;
    cached->storage = kiln_graph_storage_of(tensor, &address);
    if (cached->storage == NULL || kiln_graph_add_cached(tensor) != 0) {
      Py_DECREF(tensor);
      return NULL;
    }
    /* The storage's Python object, which is made when it is first asked for,
     * counts too, in some versions. */
    cached->tensor = tensor;
    cached->references = Py_REFCNT(tensor);
    cached->tensor_uses = kiln_graph_tensor_uses(tensor);
    cached->storage_uses = kiln_graph_uses(cached->storage);
    KeepForm(cached);
  } else {
    PyObject* hooks = PyObject_GetAttr(cached->tensor, hooks_name);
    if (hooks == NULL) return NULL;
    const int has_hooks = hooks != Py_None;
    Py_DECREF(hooks);
    if (has_hooks &&
        PyObject_SetAttr(cached->tensor, hooks_name, Py_None) != 0) {
      return NULL;
    }
  }
  Py_INCREF(cached->tensor);
  return cached->tensor;
}

static PyObject* GiveOn(KilnRecording* recording, int32_t index,
                        PyObject* storage) {
  if (storage == NULL) return NULL;
  PyObject* tensor =
      kiln_graph_tensor_on(PyList_GetItem(recording->metadata, index), storage);
  Py_DECREF(storage);
  return tensor;
}

/* Output `index`; a new reference. `given`: those before it. */
static PyObject* GiveOutput(KilnRecording* recording, int32_t index,
                            const KilnGraphRule* rule, PyObject* given) {
  PyObject* metadata = PyList_GetItem(recording->metadata, index);
  switch ((KilnGraphRuleKind)rule->kind) {
    case KILN_GRAPH_CACHED:
      return GiveCached(recording, index);
    case KILN_GRAPH_FRESH:
      return kiln_graph_tensor_on(metadata, NULL);
    case KILN_GRAPH_OF_OUTPUT:
      return GiveOn(
          recording, index,
          kiln_graph_storage_object_of(PyList_GetItem(given, rule->index)));
    case KILN_GRAPH_OF_STORAGE:
      return GiveOn(recording, index, kiln_graph_storage_object(rule->storage));
    case KILN_GRAPH_VALUE:
    case KILN_GRAPH_AS_IS:
      break;
  }
  PyObject* kept = PyList_GetItem(recording->kept, index);
  Py_XINCREF(kept);
  return kept;
}

static int GiveOutputs(KilnRecording* recording, KilnGraphCaller* caller,
                       const KilnGraphRule* rules, void** storages) {
  PyObject* outputs = PyList_New(recording->count);
  if (outputs == NULL) return -1;
  for (int32_t i = 0; i < recording->count; ++i) {
    PyObject* output = GiveOutput(recording, i, &rules[i], outputs);
    if (output == NULL || PyList_SetItem(outputs, i, output) != 0) {
      Py_DECREF(outputs);
      return -1;
    }
    void* address;
    storages[i] = NULL;
    if (rules[i].kind == KILN_GRAPH_CACHED) {
      storages[i] = recording->cached[i].storage;
    } else if (rules[i].kind > KILN_GRAPH_CACHED) {
      storages[i] = kiln_graph_storage_of(output, &address);
      if (storages[i] == NULL) {
        Py_DECREF(outputs);
        return -1;
      }
    }
  }
  caller->outputs = outputs;
  return 0;
}

int kiln_recording_replay(KilnRecording* recording, KilnGraphCaller* caller,
                          const KilnGraphRule* rules, void** storages) {
  if (CopyInputs(recording, caller->inputs) != 0 || Launch(recording) != 0 ||
      GiveOutputs(recording, caller, rules, storages) != 0) {
    return -1;
  }
  return PyList_SetSlice(caller->inputs, 0, PyList_Size(caller->inputs), NULL);
}

KilnCached* kiln_recording_cached(KilnRecording* recording, int32_t output) {
  KilnCached* cached = &recording->cached[output];
  return cached->tensor == NULL ? NULL : cached;
}

void kiln_recording_drop_cached(KilnRecording* recording, int32_t output) {
  PyObject* tensor = recording->cached[output].tensor;
  if (tensor == NULL) return;
  recording->cached[output].tensor = NULL;
  PyMem_Free(recording->cached[output].form);
  recording->cached[output].form = NULL;
  kiln_graph_remove_cached(tensor);
  Py_DECREF(tensor);
}

int kiln_cached_is_live(const KilnCached* cached, void* storage) {
  return Py_REFCNT(cached->tensor) > cached->references ||
         kiln_graph_tensor_uses(cached->tensor) > cached->tensor_uses ||
         kiln_graph_uses(storage) > cached->storage_uses;
}

#include "client/python/native/graph_host.h"

#include "client/python/native/errors.h"
#include "client/python/native/graph_torch.h"
#include "client/python/native/reading.h"

static PyObject* DeviceOf(void* context) {
  return ((KilnHostContext*)context)->device;
}

static void Watch(void* context, void* storage) {
  (void)context;
  kiln_graph_watch(storage);
}

static void Unwatch(void* context, void* storage) {
  (void)context;
  kiln_graph_unwatch(storage);
}

static int32_t IsLive(void* context, void* storage, void* cached) {
  (void)context;
  return cached != NULL ? kiln_cached_is_live(cached, storage)
                        : kiln_graph_uses(storage) > 0;
}

static void Invalidate(void* context, void* storage, const char* text) {
  PyObject* number = PyLong_FromVoidPtr(storage);
  PyObject* out = number == NULL
                      ? NULL
                      : PyObject_CallMethod(DeviceOf(context), "invalidate",
                                            "Os", number, text);
  if (out == NULL) PyErr_WriteUnraisable(DeviceOf(context));
  Py_XDECREF(out);
  Py_XDECREF(number);
}

static void* Checkpoint(void* context) {
  return PyObject_CallMethod(DeviceOf(context), "checkpoint", NULL);
}

static void FreeCheckpoint(void* context, void* checkpoint) {
  (void)context;
  Py_DECREF((PyObject*)checkpoint);
}

static int32_t Done(PyObject* out) {
  Py_XDECREF(out);
  return out == NULL ? -1 : 0;
}

static PyObject* Numbers(const void* const* addresses, int32_t count) {
  PyObject* numbers = PyList_New(count);
  for (int32_t i = 0; numbers != NULL && i < count; ++i) {
    PyObject* number = PyLong_FromVoidPtr((void*)addresses[i]);
    if (number == NULL || PyList_SetItem(numbers, i, number) != 0) {
      Py_CLEAR(numbers);
    }
  }
  return numbers;
}

static int32_t Restore(void* context, void* checkpoint, void* const* live,
                       int32_t count) {
  PyObject* storages = Numbers((const void* const*)live, count);
  if (storages == NULL) return -1;
  PyObject* out = PyObject_CallMethod(DeviceOf(context), "restore", "OO",
                                      checkpoint, storages);
  Py_DECREF(storages);
  return Done(out);
}

static int32_t FreeBlock(void* context, const void* address) {
  PyObject* number = PyLong_FromVoidPtr((void*)address);
  if (number == NULL) return -1;
  PyObject* out = PyObject_CallMethod(DeviceOf(context), "free", "O", number);
  Py_DECREF(number);
  return Done(out);
}

static int32_t TellBlocks(void* context,
                          void (*tell)(void* blocks, const void* address),
                          void* blocks) {
  PyObject* found = PyObject_CallMethod(DeviceOf(context), "blocks", NULL);
  if (found == NULL) return -1;
  const Py_ssize_t count = PyList_Size(found);
  for (Py_ssize_t i = 0; i < count; ++i) {
    tell(blocks, PyLong_AsVoidPtr(PyList_GetItem(found, i)));
  }
  Py_DECREF(found);
  return PyErr_Occurred() ? -1 : 0;
}

static void TellOrigin(void* context, const void* const* blocks, int32_t count,
                       void (*tell)(void* text, const char* part), void* text) {
  PyObject* addresses = Numbers(blocks, count);
  PyObject* found = addresses == NULL
                        ? NULL
                        : PyObject_CallMethod(DeviceOf(context), "origin_of",
                                              "O", addresses);
  PyObject* bytes = found == NULL ? NULL : PyUnicode_AsUTF8String(found);
  const char* const part = bytes == NULL ? NULL : PyBytes_AsString(bytes);
  if (part == NULL) {
    PyErr_WriteUnraisable(DeviceOf(context));
  } else {
    tell(text, part);
  }
  Py_XDECREF(bytes);
  Py_XDECREF(found);
  Py_XDECREF(addresses);
}

/* Takes what a body gave. */
static int32_t Give(PyObject* made, KilnGraphCaller* caller) {
  if (made == NULL) return -1;
  caller->outputs = PyList_Check(made) ? made : PySequence_List(made);
  if (caller->outputs != made) Py_DECREF(made);
  return caller->outputs == NULL ? -1 : 0;
}

static int32_t RunPlainly(void* context, void* body, void* given) {
  (void)context;
  KilnGraphCaller* caller = given;
  return Give(PyObject_CallFunctionObjArgs(body, caller->inputs, NULL), caller);
}

static int32_t WarmUp(void* context, void* body, void* given,
                      KilnGraphTell tell, void* outputs) {
  KilnGraphCaller* caller = given;
  PyObject* made = PyObject_CallMethod(DeviceOf(context), "warm_up", "OO", body,
                                       caller->inputs);
  if (Give(made, caller) != 0) return -1;
  return kiln_graph_tell_outputs(caller->outputs, tell, outputs);
}

static PyObject* NumbersOf(const KilnGraphUse* uses, int32_t count) {
  PyObject* list = PyList_New(count);
  for (int32_t i = 0; list != NULL && i < count; ++i) {
    PyObject* number = PyLong_FromLong(uses[i]);
    if (number == NULL || PyList_SetItem(list, i, number) != 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

static void* Record(void* context, void* body, void* given,
                    const KilnGraphUse* uses, int32_t count, KilnGraphTell tell,
                    void* outputs) {
  KilnGraphCaller* caller = given;
  PyObject* numbers = NumbersOf(uses, count);
  if (numbers == NULL) return NULL;
  PyObject* made = PyObject_CallMethod(DeviceOf(context), "record", "OOO", body,
                                       caller->inputs, numbers);
  Py_DECREF(numbers);
  if (made == NULL) return NULL;
  KilnRecording* recording =
      kiln_recording_of(made, &((KilnHostContext*)context)->recordings);
  Py_DECREF(made);
  if (recording == NULL) return NULL;
  if (kiln_graph_tell_outputs(kiln_recording_outputs(recording), tell,
                              outputs) != 0) {
    kiln_recording_free(recording);
    return NULL;
  }
  return recording;
}

static void FreeRecording(void* context, void* recording) {
  (void)context;
  kiln_recording_free(recording);
}

static int32_t FirstRun(void* context, void* recording, void* caller,
                        const KilnGraphRule* rules, int32_t count) {
  (void)context;
  (void)count;
  return kiln_recording_first_run(recording, caller, rules);
}

static int32_t Replay(void* context, void* recording, void* caller,
                      const KilnGraphRule* rules, void** storages,
                      int32_t count) {
  (void)context;
  (void)count;
  return kiln_recording_replay(recording, caller, rules, storages);
}

static void* Cached(void* context, void* recording, int32_t output) {
  (void)context;
  return kiln_recording_cached(recording, output);
}

static void DropCached(void* context, void* recording, int32_t output) {
  (void)context;
  kiln_recording_drop_cached(recording, output);
}

static int32_t FindStorages(void* context, void* given, KilnGraphInput* inputs,
                            int32_t count) {
  (void)context;
  const KilnGraphCaller* caller = given;
  for (int32_t i = 0; i < count; ++i) {
    if (!inputs[i].is_tensor) continue;
    void* address = NULL;
    inputs[i].storage =
        kiln_graph_storage_of(PyList_GetItem(caller->inputs, i), &address);
    inputs[i].storage_address = address;
    if (inputs[i].storage == NULL) return -1;
  }
  return 0;
}

static void DropInput(void* context, void* given, int32_t input) {
  (void)context;
  const KilnGraphCaller* caller = given;
  Py_INCREF(Py_None);
  PyList_SetItem(caller->inputs, input, Py_None);
}

static int32_t ChangeThread(void* given) {
  KilnHostContext* context = given;
  PyObject* out = PyObject_CallMethod(context->device, "change_thread", "L",
                                      (long long)context->stream);
  if (out != NULL) context->thread = context->caller; /* else tried again */
  return Done(out);
}

static int32_t KeepGradients(void* context, void* given, void* const* storages,
                             int32_t count, KilnGraphInput* inputs,
                             int32_t input_count) {
  const KilnGraphCaller* caller = given;
  PyObject* numbers = Numbers((const void* const*)storages, count);
  if (numbers == NULL) return -1;
  PyObject* out = PyObject_CallMethod(DeviceOf(context), "keep_gradients", "OO",
                                      numbers, caller->inputs);
  Py_DECREF(numbers);
  if (Done(out) != 0) return -1;
  for (int32_t i = 0; i < input_count; ++i) {
    if (!inputs[i].is_tensor) continue;
    void* address = NULL;
    if (kiln_reading_address(PyList_GetItem(caller->inputs, i), &address) !=
        0) {
      return -1;
    }
    inputs[i].address = address;
  }
  return 0;
}

/* What was raised stays set. */
static int32_t TakeAnotherPool(void* given) {
  const KilnHostContext* context = given;
  const KilnAside aside = kiln_errors_put_aside();
  PyObject* taken =
      PyObject_CallMethod(context->device, "take_another_pool", NULL);
  const int32_t took = taken != NULL && PyObject_IsTrue(taken) == 1;
  Py_XDECREF(taken);
  kiln_errors_take_up(aside);
  return took;
}

void kiln_graph_host(KilnHostContext* context, KilnGraphHost* host) {
  *host = (KilnGraphHost){
      .struct_size = sizeof(KilnGraphHost),
      .context = context,
      .watch = &Watch,
      .unwatch = &Unwatch,
      .is_live = &IsLive,
      .invalidate = &Invalidate,
      .checkpoint = &Checkpoint,
      .free_checkpoint = &FreeCheckpoint,
      .restore = &Restore,
      .free_block = &FreeBlock,
      .tell_blocks = &TellBlocks,
      .tell_origin = &TellOrigin,
      .run_plainly = &RunPlainly,
      .warm_up = &WarmUp,
      .record = &Record,
      .free_recording = &FreeRecording,
      .first_run = &FirstRun,
      .replay = &Replay,
      .cached = &Cached,
      .drop_cached = &DropCached,
      .find_storages = &FindStorages,
      .drop_input = &DropInput,
      .take_another_pool = &TakeAnotherPool,
      .change_thread = &ChangeThread,
      .keep_gradients = &KeepGradients,
  };
}

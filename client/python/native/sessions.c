#include "client/python/native/sessions.h"

#include <stdatomic.h>
#include <string.h>

#include "client/python/native/errors.h"
#include "client/python/native/forked.h"
#include "client/python/native/library.h"

static const char kSession[] = "kiln.session";
static const char kShelf[] = "kiln.shelf";
enum { kMostSessions = 8 };

/* Kernels of all compiles under way; each thread's own share in them. */
static atomic_long kernels_done, kernels_total;
static _Thread_local long own_done, own_total;

static void SetOwn(long done, long total) {
  atomic_fetch_add(&kernels_done, done - own_done);
  atomic_fetch_add(&kernels_total, total - own_total);
  own_done = done;
  own_total = total;
}

/* Told without the GIL, on the thread that compiles. */
static void OnProgress(void* context, const KilnProgress* progress) {
  (void)context;
  if (progress->stage == KILN_BUILDING) SetOwn(progress->done, progress->total);
}

/* Copies an address with its end. 0: it is none, or has no room. */
static int32_t CopyAddress(PyObject* found, char* address, size_t size) {
  if (found == Py_None) return 0;
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(found, &length);
  if (text == NULL || (size_t)length >= size) return 0;
  memcpy(address, text, (size_t)length + 1);
  return 1;
}

/* KilnSessionOptions.find_daemon: asks the function that is its context. Called
 * without the GIL. */
static int32_t FindDaemon(void* context, char* address, size_t size) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject* found = PyObject_CallObject(context, NULL);
  const int32_t there = found ? CopyAddress(found, address, size) : 0;
  Py_XDECREF(found);
  if (PyErr_Occurred()) PyErr_WriteUnraisable(context);
  PyGILState_Release(state);
  return there;
}

void kiln_py_compile_ended(void) {
  if (own_total != 0) SetOwn(0, 0);
}

PyObject* kiln_py_progress(PyObject* self, PyObject* nothing) {
  (void)self;
  (void)nothing;
  return Py_BuildValue("ll", atomic_load(&kernels_done),
                       atomic_load(&kernels_total));
}

KilnSession* kiln_py_session(PyObject* capsule) {
  return PyCapsule_GetPointer(capsule, kSession);
}

static void FreeSession(PyObject* capsule) {
  KilnSession* session = PyCapsule_GetPointer(capsule, kSession);
  if (kiln_py_abandoned()) return;
  Py_BEGIN_ALLOW_THREADS; /* it may end a worker */
  kiln_library.kiln_session_close(session);
  Py_END_ALLOW_THREADS;
}

PyObject* kiln_py_open_session(PyObject* self, PyObject* args) {
  (void)self;
  KilnSessionOptions options = {.struct_size = sizeof(options)};
  int fallback, device, ordinal, threads, urgency;
  long long deadline_ms;
  const char* keys;
  Py_ssize_t keys_length;
  PyObject* shelf;
  PyObject* find_daemon;
  if (!PyArg_ParseTuple(
          args, "zzy#izziiiLOzOzzzzziz", &options.socket, &options.tcp, &keys,
          &keys_length, &fallback, &options.worker_program,
          &options.scratch_folder, &device, &ordinal, &threads, &deadline_ms,
          &shelf, &options.worker_environment, &find_daemon,
          &options.cache_namespace, &options.tls_ca, &options.tls_certificate,
          &options.tls_key, &options.token_file, &urgency,
          &options.more_daemons)) {
    return NULL;
  }
  options.public_keys = (const uint8_t*)keys;
  options.public_key_count = (int32_t)(keys_length / KILN_PUBLIC_KEY_BYTES);
  options.fallback = (KilnFallback)fallback;
  options.device = (KilnDevice)device;
  options.urgency = (KilnUrgency)urgency;
  options.ordinal = ordinal;
  options.threads = threads;
  options.compile_deadline_ms = deadline_ms;
  options.on_progress = &OnProgress;
  options.shelf = PyCapsule_GetPointer(shelf, kShelf);
  if (options.shelf == NULL) return NULL;
  /* Kept for good, since callables are, beyond the session's own end. */
  Py_INCREF(find_daemon);
  options.find_daemon = &FindDaemon;
  options.find_context = find_daemon;
  KilnSession* session = NULL;
  KilnStatus* status;
  Py_BEGIN_ALLOW_THREADS;
  status = kiln_library.kiln_session_open(&options, &session);
  Py_END_ALLOW_THREADS;
  if (status != NULL) return kiln_py_raise(status);
  PyObject* capsule = PyCapsule_New(session, kSession, &FreeSession);
  if (capsule != NULL && options.device == KILN_CUDA) {
    PyCapsule_SetContext(capsule, (void*)(intptr_t)(1 + ordinal));
  }
  return capsule;
}

static void FreeShelf(PyObject* capsule) {
  if (kiln_py_abandoned()) return;
  kiln_library.kiln_shelf_free(PyCapsule_GetPointer(capsule, kShelf));
}

PyObject* kiln_py_new_shelf(PyObject* self, PyObject* nothing) {
  (void)self;
  (void)nothing;
  return PyCapsule_New(kiln_library.kiln_shelf_new(), kShelf, &FreeShelf);
}

PyObject* kiln_py_save(PyObject* self, PyObject* capsule) {
  (void)self;
  const KilnShelf* shelf = PyCapsule_GetPointer(capsule, kShelf);
  if (shelf == NULL) return NULL;
  size_t room = 0;
  size_t length = kiln_library.kiln_shelf_save(shelf, NULL, 0);
  char* bundle = NULL;
  while (length > room) { /* another thread may add to it meanwhile */
    PyMem_Free(bundle);
    room = length;
    bundle = PyMem_Malloc(room);
    if (bundle == NULL) return PyErr_NoMemory();
    length = kiln_library.kiln_shelf_save(shelf, bundle, room);
  }
  PyObject* out = PyBytes_FromStringAndSize(bundle, (Py_ssize_t)length);
  PyMem_Free(bundle);
  return out;
}

PyObject* kiln_py_load_bundle(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* capsule;
  PyObject* list;
  const char* bytes;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "OO!y#", &capsule, &PyList_Type, &list, &bytes,
                        &length)) {
    return NULL;
  }
  KilnShelf* shelf = PyCapsule_GetPointer(capsule, kShelf);
  if (shelf == NULL) return NULL;
  KilnSession* sessions[kMostSessions];
  const Py_ssize_t count = PyList_Size(list);
  if (count > kMostSessions) {
    PyErr_Format(PyExc_ValueError, "%zd sessions, expected at most %d", count,
                 (int)kMostSessions);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    sessions[i] = kiln_py_session(PyList_GetItem(list, i));
    if (sessions[i] == NULL) return NULL;
  }
  int32_t artifacts = 0;
  KilnStatus* status;
  Py_BEGIN_ALLOW_THREADS;
  status = kiln_library.kiln_shelf_load(shelf, sessions, (int32_t)count, bytes,
                                        (size_t)length, &artifacts);
  Py_END_ALLOW_THREADS;
  if (status != NULL) return kiln_py_raise(status);
  return PyLong_FromLong(artifacts);
}

PyObject* kiln_py_bundle_devices(PyObject* self, PyObject* args) {
  (void)self;
  const char* bytes;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "y#", &bytes, &length)) return NULL;
  uint32_t devices = 0;
  KilnStatus* status =
      kiln_library.kiln_bundle_devices(bytes, (size_t)length, &devices);
  if (status != NULL) return kiln_py_raise(status);
  return PyLong_FromUnsignedLong(devices);
}

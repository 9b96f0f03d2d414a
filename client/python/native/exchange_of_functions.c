#include "client/python/native/exchange_of_functions.h"

#include <stdlib.h>

#include "client/python/native/making.h"
#include "client/python/native/reading.h"

/* libtorch's, as in reading.c. Of one with CUDA only. */
static int32_t (*get_current_cuda_stream)(int32_t ordinal, void** out);

static const char kName[] = "dltensor_versioned";
static PyObject* from_dlpack; /* torch._C._from_dlpack */

/* DlpackExchange.wrap. */
static int Wrap(DlpackManaged* tensor, void** object) {
  PyObject* capsule = PyCapsule_New(tensor, kName, NULL);
  if (capsule == NULL) {
    tensor->deleter(tensor);
    return -1;
  }
  *object = PyObject_CallFunctionObjArgs(from_dlpack, capsule, NULL);
  /* Who takes what is in a capsule gives it another name. */
  if (*object == NULL && PyCapsule_IsValid(capsule, kName)) {
    tensor->deleter(tensor);
  }
  Py_DECREF(capsule);
  return *object != NULL ? 0 : -1;
}

static void Free(DlpackManaged* managed) {
  kiln_making_free(managed->context);
  free(managed);
}

/* DlpackExchange.allocate, of bytes on CUDA. Needs no GIL. */
static int Allocate(DlpackTensor* like, DlpackManaged** out, void* context,
                    void (*set_error)(void*, const char*, const char*)) {
  const int64_t stride = 1;
  DlpackManaged* managed = calloc(1, sizeof(DlpackManaged));
  if (managed != NULL) {
    managed->context =
        kiln_making_new(like->device.ordinal, KILN_UINT8, 1, like->sizes,
                        &stride, &managed->tensor.data);
  }
  if (managed == NULL || managed->context == NULL) {
    free(managed);
    set_error(context, "RuntimeError", "libtorch: out of memory");
    return -1;
  }
  managed->deleter = &Free;
  managed->tensor.device = like->device;
  *out = managed;
  return 0;
}

/* DlpackExchange.stream. */
static int Stream(int32_t device_type, int32_t ordinal, void** out) {
  if (device_type == kDlpackCuda && get_current_cuda_stream != NULL &&
      get_current_cuda_stream(ordinal, out) == 0) {
    return 0;
  }
  PyErr_SetString(PyExc_RuntimeError,
                  "libtorch: aoti_torch_get_current_cuda_stream failed");
  return -1;
}

const DlpackExchange* kiln_exchange_of_functions(void) {
  static DlpackExchange table;
  if (kiln_making_learn() != 0) return NULL;
  if (!kiln_reading_find("get_current_cuda_stream", &get_current_cuda_stream)) {
    PyErr_Clear();
  }
  PyObject* module = PyImport_ImportModule("torch._C");
  if (module == NULL) return NULL;
  from_dlpack = PyObject_GetAttrString(module, "_from_dlpack");
  Py_DECREF(module);
  if (from_dlpack == NULL) return NULL;
  table.version.major = kDlpackMajor;
  table.allocate = &Allocate;
  table.wrap = &Wrap;
  table.stream = &Stream;
  return &table;
}

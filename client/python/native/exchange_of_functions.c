#include <stdlib.h>

#include "client/python/native/exchange.h"
#include "client/python/native/reading.h"

/* libtorch's functions for AOTInductor, as in reading.c: those that make
 * tensors and know streams. */
typedef void* Handle;

static struct {
  int32_t (*get_data_ptr)(Handle, void**);
  int32_t (*delete_tensor_object)(Handle);
  int32_t (*empty_strided)(int64_t rank, const int64_t* sizes,
                           const int64_t* strides, int32_t dtype,
                           int32_t device_type, int32_t ordinal, Handle* out);
  int32_t (*device_type_cuda)(void);
  int32_t (*dtype_uint8)(void);
  /* Of a libtorch with CUDA only. */
  int32_t (*get_current_cuda_stream)(int32_t ordinal, void** out);
} torch;

static const char kName[] = "dltensor_versioned";
static PyObject* from_dlpack; /* torch._C._from_dlpack */

static int Refuse(const char* what) {
  PyErr_Format(PyExc_RuntimeError, "libtorch: aoti_torch_%s failed", what);
  return -1;
}

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
  torch.delete_tensor_object(managed->context);
  free(managed);
}

/* DlpackExchange.allocate, of bytes on CUDA. Needs no GIL. */
static int Allocate(DlpackTensor* like, DlpackManaged** out, void* context,
                    void (*set_error)(void*, const char*, const char*)) {
  const int64_t stride = 1;
  DlpackManaged* managed = calloc(1, sizeof(DlpackManaged));
  if (managed == NULL ||
      torch.empty_strided(1, like->sizes, &stride, torch.dtype_uint8(),
                          torch.device_type_cuda(), like->device.ordinal,
                          &managed->context) != 0) {
    free(managed);
    set_error(context, "RuntimeError", "libtorch gave no memory");
    return -1;
  }
  managed->deleter = &Free;
  managed->tensor.device = like->device;
  if (torch.get_data_ptr(managed->context, &managed->tensor.data) != 0) {
    Free(managed);
    set_error(context, "RuntimeError", "libtorch gave no address");
    return -1;
  }
  *out = managed;
  return 0;
}

/* DlpackExchange.stream. */
static int Stream(int32_t device_type, int32_t ordinal, void** out) {
  if (device_type != kDlpackCuda || torch.get_current_cuda_stream == NULL ||
      torch.get_current_cuda_stream(ordinal, out) != 0) {
    return Refuse("get_current_cuda_stream");
  }
  return 0;
}

static int FindFunctions(void) {
#define KILN_FIND(name) kiln_reading_find(#name, &torch.name)
  if (!KILN_FIND(get_data_ptr) || !KILN_FIND(delete_tensor_object) ||
      !KILN_FIND(empty_strided) || !KILN_FIND(device_type_cuda) ||
      !KILN_FIND(dtype_uint8)) {
    return -1;
  }
  if (!KILN_FIND(get_current_cuda_stream)) PyErr_Clear();
#undef KILN_FIND
  return 0;
}

const DlpackExchange* kiln_exchange_of_functions(void) {
  static DlpackExchange table;
  if (FindFunctions() != 0) return NULL;
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

#define _GNU_SOURCE /* RTLD_NOLOAD */
#include <dlfcn.h>
#include <stdlib.h>

#include "client/python/native/exchange.h"

/* libtorch's functions for AOTInductor, "aoti_torch_" before each name: C, kept
 * from version to version. They take a tensor by the address of its C++ handle,
 * which is one pointer: that in the Python attribute `_cdata`. 0 is success. */
typedef void* Handle;
typedef int32_t (*GetNumber)(Handle, int32_t*);
typedef int32_t (*GetDims)(Handle, int64_t**);

static struct {
  int32_t (*get_data_ptr)(Handle, void**);
  int32_t (*get_dim)(Handle, int64_t*);
  GetDims get_sizes;
  GetDims get_strides;
  GetNumber get_dtype;
  GetNumber get_layout;
  GetNumber get_device_type;
  GetNumber get_device_index;
  int32_t (*delete_tensor_object)(Handle);
  int32_t (*empty_strided)(int64_t rank, const int64_t* sizes,
                           const int64_t* strides, int32_t dtype,
                           int32_t device_type, int32_t ordinal, Handle* out);
  int32_t (*device_type_cuda)(void);
  int32_t (*layout_strided)(void);
  int32_t (*dtype_uint8)(void);
  /* Of a libtorch with CUDA only. */
  int32_t (*get_current_cuda_stream)(int32_t ordinal, void** out);
} torch;

static const char kName[] = "dltensor_versioned";

/* libtorch's numbers of element types, and DLPack's. */
enum { kMostTypes = 64 };
static DlpackType type_of[kMostTypes];
static const struct {
  const char* name;
  DlpackType type;
} kTypes[] = {
    {"aoti_torch_dtype_bool", {kDlpackBool, 8, 1}},
    {"aoti_torch_dtype_uint8", {kDlpackUInt, 8, 1}},
    {"aoti_torch_dtype_int8", {kDlpackInt, 8, 1}},
    {"aoti_torch_dtype_int16", {kDlpackInt, 16, 1}},
    {"aoti_torch_dtype_int32", {kDlpackInt, 32, 1}},
    {"aoti_torch_dtype_int64", {kDlpackInt, 64, 1}},
    {"aoti_torch_dtype_float16", {kDlpackFloat, 16, 1}},
    {"aoti_torch_dtype_bfloat16", {kDlpackBfloat, 16, 1}},
    {"aoti_torch_dtype_float32", {kDlpackFloat, 32, 1}},
    {"aoti_torch_dtype_float64", {kDlpackFloat, 64, 1}},
};

static PyObject* cdata_name;
static PyObject* from_dlpack; /* torch._C._from_dlpack */
static int32_t cuda_type, strided;

static int Refuse(const char* what) {
  PyErr_Format(PyExc_RuntimeError, "libtorch: aoti_torch_%s failed", what);
  return -1;
}

/* DlpackExchange.look. */
static int Look(void* object, DlpackTensor* out) {
  PyObject* cdata = PyObject_GetAttr(object, cdata_name);
  if (cdata == NULL) return -1;
  void* implementation = PyLong_AsVoidPtr(cdata);
  Py_DECREF(cdata);
  if (implementation == NULL) return -1;
  Handle tensor = &implementation;
  int64_t rank = 0;
  int32_t dtype = -1, device_type = 0, layout = -1;
  if (torch.get_layout(tensor, &layout) != 0) return Refuse("get_layout");
  if (layout != strided) {
    PyErr_SetString(PyExc_RuntimeError, "a tensor without strided storage");
    return -1;
  }
  if (torch.get_dim(tensor, &rank) != 0) return Refuse("get_dim");
  if (torch.get_dtype(tensor, &dtype) != 0) return Refuse("get_dtype");
  if (torch.get_device_type(tensor, &device_type) != 0 ||
      torch.get_device_index(tensor, &out->device.ordinal) != 0) {
    return Refuse("get_device_type");
  }
  if (torch.get_sizes(tensor, &out->sizes) != 0 ||
      torch.get_strides(tensor, &out->strides) != 0) {
    return Refuse("get_sizes");
  }
  if (torch.get_data_ptr(tensor, &out->data) != 0)
    return Refuse("get_data_ptr");
  out->byte_offset = 0;
  out->rank = (int32_t)rank;
  out->device.type = device_type == cuda_type ? kDlpackCuda : kDlpackCpu;
  if (out->device.type == kDlpackCpu) out->device.ordinal = 0;
  if (device_type != cuda_type && device_type != 0) {
    PyErr_SetString(PyExc_TypeError, "a tensor of another device");
    return -1;
  }
  const DlpackType unknown = {0, 0, 0};
  out->type = dtype >= 0 && dtype < kMostTypes ? type_of[dtype] : unknown;
  return 0;
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
                          cuda_type, like->device.ordinal,
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

/* Finds a function; 0, with an ImportError, when it is not there. */
static int Find(void* library, const char* name, void* place) {
  *(void**)place = dlsym(library, name);
  if (*(void**)place != NULL) return 1;
  PyErr_Format(PyExc_ImportError,
               "torch has no DLPack exchange table, and libtorch no %s", name);
  return 0;
}

static int FindFunctions(void* library) {
#define KILN_FIND(name) Find(library, "aoti_torch_" #name, &torch.name)
  if (!KILN_FIND(get_data_ptr) || !KILN_FIND(get_dim) ||
      !KILN_FIND(get_sizes) || !KILN_FIND(get_strides) ||
      !KILN_FIND(get_dtype) || !KILN_FIND(get_layout) ||
      !KILN_FIND(layout_strided) || !KILN_FIND(get_device_type) ||
      !KILN_FIND(get_device_index) || !KILN_FIND(delete_tensor_object) ||
      !KILN_FIND(empty_strided) || !KILN_FIND(device_type_cuda) ||
      !KILN_FIND(dtype_uint8)) {
    return -1;
  }
#undef KILN_FIND
  *(void**)&torch.get_current_cuda_stream =
      dlsym(library, "aoti_torch_get_current_cuda_stream");
  cuda_type = torch.device_type_cuda();
  strided = torch.layout_strided();
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); ++i) {
    int32_t (*number)(void);
    if (!Find(library, kTypes[i].name, &number)) return -1;
    const int32_t place = number();
    if (place >= 0 && place < kMostTypes) type_of[place] = kTypes[i].type;
  }
  return 0;
}

const DlpackExchange* kiln_exchange_of_functions(void) {
  static DlpackExchange table;
  void* library = dlopen("libtorch.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) {
    PyErr_SetString(PyExc_ImportError,
                    "torch has no DLPack exchange table, and no libtorch.so is "
                    "loaded");
    return NULL;
  }
  if (FindFunctions(library) != 0) return NULL;
  PyObject* module = PyImport_ImportModule("torch._C");
  if (module == NULL) return NULL;
  from_dlpack = PyObject_GetAttrString(module, "_from_dlpack");
  Py_DECREF(module);
  cdata_name = PyUnicode_InternFromString("_cdata");
  if (from_dlpack == NULL || cdata_name == NULL) return NULL;
  table.version.major = kDlpackMajor;
  table.allocate = &Allocate;
  table.wrap = &Wrap;
  table.look = &Look;
  table.stream = &Stream;
  return &table;
}

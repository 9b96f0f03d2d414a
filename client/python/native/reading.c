#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "client/python/native/reading.h"

#include <dlfcn.h>
#include <string.h>

/* The address of a tensor's C++ handle. */
typedef void* Handle;
typedef int32_t (*GetNumber)(Handle, int32_t*);
typedef int32_t (*GetDims)(Handle, int64_t**);

/* "aoti_torch_" before each name; kept from version to version. 0 is success. */
static struct {
  int32_t (*get_data_ptr)(Handle, void**);
  int32_t (*get_dim)(Handle, int64_t*);
  GetDims get_sizes;
  GetDims get_strides;
  GetNumber get_dtype;
  GetNumber get_layout;
  GetNumber get_device_type;
  GetNumber get_device_index;
} torch;

/* libtorch's numbers of element types, and DLPack's. */
enum { kMostTypes = 64 };
static DlpackType type_of[kMostTypes];
static const struct {
  const char* name;
  DlpackType type;
} kTypes[] = {
    {"dtype_bool", {kDlpackBool, 8, 1}},
    {"dtype_uint8", {kDlpackUInt, 8, 1}},
    {"dtype_int8", {kDlpackInt, 8, 1}},
    {"dtype_int16", {kDlpackInt, 16, 1}},
    {"dtype_int32", {kDlpackInt, 32, 1}},
    {"dtype_int64", {kDlpackInt, 64, 1}},
    {"dtype_float16", {kDlpackFloat, 16, 1}},
    {"dtype_bfloat16", {kDlpackBfloat, 16, 1}},
    {"dtype_float32", {kDlpackFloat, 32, 1}},
    {"dtype_float64", {kDlpackFloat, 64, 1}},
};

static PyObject* cdata_name;
static int32_t cpu_type, cuda_type, strided;
static Py_ssize_t handle_place = -1; /* in bytes from an object's start */

static int Refuse(const char* what) {
  PyErr_Format(PyExc_RuntimeError, "a tensor without %s", what);
  return -1;
}

/* The value of a tensor's handle; NULL with an exception set. */
static void* AskForHandle(PyObject* tensor) {
  PyObject* cdata = PyObject_GetAttr(tensor, cdata_name);
  if (cdata == NULL) return NULL;
  void* handle = PyLong_AsVoidPtr(cdata);
  Py_DECREF(cdata);
  return handle;
}

static int ReadDevice(Handle tensor, DlpackDevice* out) {
  int32_t type = -1;
  const int known = torch.get_device_type(tensor, &type) == 0;
  out->ordinal = 0;
  if (known && type == cpu_type) {
    out->type = kDlpackCpu;
    return 0;
  }
  out->type = kDlpackCuda;
  if (known && type == cuda_type &&
      torch.get_device_index(tensor, &out->ordinal) == 0) {
    return 0;
  }
  return Refuse("a device that is a CPU or CUDA");
}

int kiln_reading_look(void* object, DlpackTensor* out) {
  void* asked = NULL;
  Handle tensor = (char*)object + handle_place;
  if (handle_place < 0) {
    asked = AskForHandle(object);
    if (asked == NULL) return -1;
    tensor = &asked;
  }
  int64_t rank = 0;
  int32_t dtype = -1, layout = -1;
  /* First: of what has another layout the functions below make an exception. */
  if (torch.get_layout(tensor, &layout) != 0 || layout != strided) {
    return Refuse("strided storage");
  }
  if (ReadDevice(tensor, &out->device) != 0) return -1;
  if (torch.get_dim(tensor, &rank) != 0 ||
      torch.get_sizes(tensor, &out->sizes) != 0 ||
      torch.get_strides(tensor, &out->strides) != 0 ||
      torch.get_dtype(tensor, &dtype) != 0) {
    return Refuse("sizes and strides");
  }
  if (torch.get_data_ptr(tensor, &out->data) != 0) return Refuse("storage");
  const DlpackType unknown = {0, 0, 0};
  out->type = dtype >= 0 && dtype < kMostTypes ? type_of[dtype] : unknown;
  out->rank = (int32_t)rank;
  out->byte_offset = 0;
  return 0;
}

int kiln_reading_is_direct(void) { return handle_place >= 0; }

int kiln_reading_find(const char* name, void* place) {
  static void* library;
  if (library == NULL) library = dlopen("libtorch.so", RTLD_LAZY | RTLD_NOLOAD);
  char whole[64] = "aoti_torch_";
  strncat(whole, name, sizeof(whole) - strlen(whole) - 1);
  *(void**)place = library == NULL ? NULL : dlsym(library, whole);
  if (*(void**)place != NULL) return 1;
  PyErr_Format(PyExc_ImportError, "libtorch: %s",
               library == NULL ? "is not loaded" : whole);
  return 0;
}

static int FindFunctions(void) {
  int32_t (*cpu)(void);
  int32_t (*cuda)(void);
  int32_t (*layout)(void);
#define KILN_FIND(name) kiln_reading_find(#name, &torch.name)
  if (!KILN_FIND(get_data_ptr) || !KILN_FIND(get_dim) ||
      !KILN_FIND(get_sizes) || !KILN_FIND(get_strides) ||
      !KILN_FIND(get_dtype) || !KILN_FIND(get_layout) ||
      !KILN_FIND(get_device_type) || !KILN_FIND(get_device_index) ||
      !kiln_reading_find("device_type_cpu", &cpu) ||
      !kiln_reading_find("device_type_cuda", &cuda) ||
      !kiln_reading_find("layout_strided", &layout)) {
    return -1;
  }
#undef KILN_FIND
  cpu_type = cpu();
  cuda_type = cuda();
  strided = layout();
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); ++i) {
    int32_t (*number)(void);
    if (!kiln_reading_find(kTypes[i].name, &number)) return -1;
    const int32_t place = number();
    if (place >= 0 && place < kMostTypes) type_of[place] = kTypes[i].type;
  }
  return 0;
}

enum { kSamples = 3 };

/* The only place, among the first `size` bytes of the objects, whose word is
 * each one's handle; -1 when there is none, or more than one. */
static Py_ssize_t FindPlace(PyObject* const* tensors, void* const* handles,
                            Py_ssize_t size) {
  Py_ssize_t found = -1;
  const Py_ssize_t word = (Py_ssize_t)sizeof(void*);
  for (Py_ssize_t at = (Py_ssize_t)sizeof(PyObject); at + word <= size;
       at += word) {
    int alike = 0;
    for (int i = 0; i < kSamples; ++i) {
      alike +=
          memcmp((const char*)tensors[i] + at, &handles[i], sizeof(void*)) == 0;
    }
    if (alike == kSamples && found >= 0) return -1;
    if (alike == kSamples) found = at;
  }
  return found;
}

/* As FindPlace, of tensors made for it. An exception means -1. */
static Py_ssize_t PlaceIn(PyObject* tensor_class) {
  PyObject* tensors[kSamples];
  void* handles[kSamples];
  int made = 0;
  while (made < kSamples) {
    tensors[made] = PyObject_CallFunction(tensor_class, NULL);
    if (tensors[made] == NULL) break;
    handles[made] = AskForHandle(tensors[made]);
    ++made;
    if (handles[made - 1] == NULL) break;
  }
  Py_ssize_t place = -1;
  if (!PyErr_Occurred()) {
    PyObject* size = PyObject_GetAttrString(tensor_class, "__basicsize__");
    if (size != NULL)
      place = FindPlace(tensors, handles, PyLong_AsSsize_t(size));
    Py_XDECREF(size);
  }
  while (made > 0) Py_DECREF(tensors[--made]);
  return PyErr_Occurred() ? -1 : place;
}

int kiln_reading_learn(PyObject* tensor_class) {
  if (FindFunctions() != 0) return -1;
  cdata_name = PyUnicode_InternFromString("_cdata");
  if (cdata_name == NULL) return -1;
  handle_place = PlaceIn(tensor_class);
  PyErr_Clear(); /* then it is not known */
  return 0;
}

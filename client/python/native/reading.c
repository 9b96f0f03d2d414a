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

/* What Kiln calls an element type, by libtorch's number of it; 0: nothing. */
enum { kMostTypes = 64 };
static uint8_t dtype_of[kMostTypes];
static int32_t number_of[KILN_FLOAT64 + 1];
static const struct {
  const char* name;
  KilnDType dtype;
} kTypes[] = {
    {"dtype_bool", KILN_BOOL},       {"dtype_uint8", KILN_UINT8},
    {"dtype_int8", KILN_INT8},       {"dtype_int16", KILN_INT16},
    {"dtype_int32", KILN_INT32},     {"dtype_int64", KILN_INT64},
    {"dtype_float16", KILN_FLOAT16}, {"dtype_bfloat16", KILN_BFLOAT16},
    {"dtype_float32", KILN_FLOAT32}, {"dtype_float64", KILN_FLOAT64},
};

/* Tensors that were read lately. One that has the memory it had is where it was,
 * and strided: PyTorch may give it other sizes, strides and types, and other
 * memory, which is elsewhere. A tensor made later at the same address of the C++
 * object and of the memory has that device too, and one without strides or
 * memory fails when it is asked for them. */
enum { kSeen = 1024 };
static struct Seen {
  const void* object; /* in C++ */
  const void* data;   /* not NULL */
  DlpackDevice device;
} seen[kSeen]; /* the GIL guards it */

static PyObject* cdata_name;
static int32_t cpu_type, cuda_type, strided;
static Py_ssize_t handle_place = -1; /* in bytes from an object's start */
static int has_functions;

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

/* Where `tensor` is, which has the address `data` if it has one that can be
 * asked. Before that address: of what has another layout the functions make an
 * exception, which libtorch prints. */
static int ReadPlace(Handle tensor, void** data, DlpackDevice* device) {
  int32_t layout = -1;
  if (torch.get_layout(tensor, &layout) != 0 || layout != strided) {
    return Refuse("strided storage");
  }
  if (ReadDevice(tensor, device) != 0) return -1;
  if (torch.get_data_ptr(tensor, data) != 0) return Refuse("storage");
  return 0;
}

/* As ReadPlace, of a tensor that was perhaps seen before. */
static inline int RecallPlace(Handle tensor, struct Seen* row, void** data,
                              DlpackDevice* device) {
  const void* const object = *(void**)tensor;
  if (row->object == object) {
    if (torch.get_data_ptr(tensor, data) != 0) return Refuse("storage");
    if (*data == row->data) {
      *device = row->device;
      return 0;
    }
  }
  if (ReadPlace(tensor, data, device) != 0) return -1;
  if (*data == NULL) return 0;
  row->object = object;
  row->data = *data;
  row->device = *device;
  return 0;
}

int kiln_reading_read(PyObject* object, uintptr_t use, KilnValue* value,
                      DlpackDevice* device) {
  void* asked = NULL;
  Handle tensor = (char*)object + handle_place;
  if (handle_place < 0) {
    asked = AskForHandle(object);
    if (asked == NULL) return -1;
    tensor = &asked;
  }
  if (RecallPlace(tensor, &seen[use % kSeen], &value->data, device) != 0) {
    return -1;
  }
  int64_t rank = 0;
  int32_t dtype = -1;
  if (torch.get_dim(tensor, &rank) != 0 ||
      torch.get_sizes(tensor, (int64_t**)&value->sizes) != 0 ||
      torch.get_strides(tensor, (int64_t**)&value->strides) != 0 ||
      torch.get_dtype(tensor, &dtype) != 0) {
    return Refuse("sizes and strides");
  }
  value->kind = KILN_TENSOR;
  value->rank = (int32_t)rank;
  value->dtype = (uint32_t)dtype < kMostTypes ? dtype_of[dtype] : 0;
  if (value->dtype != 0) return 0;
  PyErr_Format(PyExc_TypeError, "a tensor of libtorch's element type %d",
               (int)dtype);
  return -1;
}

/* By the tensor's own method, which raises what is wrong. */
static int AskForAddress(PyObject* tensor, void** address) {
  PyObject* number = PyObject_CallMethod(tensor, "data_ptr", NULL);
  if (number == NULL) return -1;
  *address = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

int kiln_reading_address(PyObject* tensor, void** address) {
  if (!has_functions || handle_place < 0) return AskForAddress(tensor, address);
  const Handle handle = (char*)tensor + handle_place;
  if (torch.get_data_ptr(handle, address) == 0) return 0;
  return AskForAddress(tensor, address);
}

void kiln_reading_prefetch(const void* object) {
  if (handle_place < 0) return;
  const char* const tensor = *(char**)((char*)object + handle_place);
  /* Of its some 200 bytes. */
  for (int line = 0; line < 4; ++line) __builtin_prefetch(tensor + 64 * line);
}

int32_t kiln_reading_number_of(KilnDType dtype) {
  return has_functions ? number_of[dtype] : -1;
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
  int32_t (*uint64)(void);
#define KILN_FIND(name) kiln_reading_find(#name, &torch.name)
  if (!KILN_FIND(get_data_ptr) || !KILN_FIND(get_dim) ||
      !KILN_FIND(get_sizes) || !KILN_FIND(get_strides) ||
      !KILN_FIND(get_dtype) || !KILN_FIND(get_layout) ||
      !KILN_FIND(get_device_type) || !KILN_FIND(get_device_index) ||
      !kiln_reading_find("device_type_cpu", &cpu) ||
      !kiln_reading_find("device_type_cuda", &cuda) ||
      !kiln_reading_find("dtype_uint64", &uint64) ||
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
    number_of[kTypes[i].dtype] = place;
    if (place >= 0 && place < kMostTypes) dtype_of[place] = kTypes[i].dtype;
  }
  /* Its bits: of all uint64 a graph takes the states of flash attention alone,
   * and says int64 of them (flash_states.py). */
  if (uint64() >= 0 && uint64() < kMostTypes) dtype_of[uint64()] = KILN_INT64;
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
  has_functions = 1;
  cdata_name = PyUnicode_InternFromString("_cdata");
  if (cdata_name == NULL) return -1;
  handle_place = PlaceIn(tensor_class);
  PyErr_Clear(); /* then it is not known */
  return 0;
}

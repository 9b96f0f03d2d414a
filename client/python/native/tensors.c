#include "client/python/native/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "client/python/native/exchange.h"
#include "client/python/native/lending.h"
#include "client/python/native/library.h"

static const DlpackExchange* exchange;
static PyTypeObject* tensor_type;    /* the class itself */
static PyTypeObject* parameter_type; /* its commonest subclass seen so far */

int kiln_tensors_learn(PyObject* tensor_class) {
  if (exchange != NULL) return 0;
  exchange = kiln_exchange_of(tensor_class);
  if (exchange == NULL) return -1;
  Py_INCREF(tensor_class);
  tensor_type = (PyTypeObject*)tensor_class;
  return 0;
}

/* A KilnDType, or 0 for a type Kiln has not. */
static int DTypeOf(DlpackType type) {
  if (type.lanes != 1) return 0;
  switch (type.code << 8 | type.bits) {
    case kDlpackBool << 8 | 8:
      return KILN_BOOL;
    case kDlpackUInt << 8 | 8:
      return KILN_UINT8;
    case kDlpackInt << 8 | 8:
      return KILN_INT8;
    case kDlpackInt << 8 | 16:
      return KILN_INT16;
    case kDlpackInt << 8 | 32:
      return KILN_INT32;
    case kDlpackInt << 8 | 64:
      return KILN_INT64;
    case kDlpackFloat << 8 | 16:
      return KILN_FLOAT16;
    case kDlpackBfloat << 8 | 16:
      return KILN_BFLOAT16;
    case kDlpackFloat << 8 | 32:
      return KILN_FLOAT32;
    case kDlpackFloat << 8 | 64:
      return KILN_FLOAT64;
  }
  return 0;
}

static DlpackType TypeOf(KilnDType dtype) {
  DlpackType type = {kDlpackFloat, 32, 1};
  switch (dtype) {
    case KILN_BOOL:
      type.code = kDlpackBool;
      type.bits = 8;
      break;
    case KILN_UINT8:
      type.code = kDlpackUInt;
      type.bits = 8;
      break;
    case KILN_INT8:
      type.code = kDlpackInt;
      type.bits = 8;
      break;
    case KILN_INT16:
      type.code = kDlpackInt;
      type.bits = 16;
      break;
    case KILN_INT32:
      type.code = kDlpackInt;
      break;
    case KILN_INT64:
      type.code = kDlpackInt;
      type.bits = 64;
      break;
    case KILN_FLOAT16:
      type.bits = 16;
      break;
    case KILN_BFLOAT16:
      type.code = kDlpackBfloat;
      type.bits = 16;
      break;
    case KILN_FLOAT32:
      break;
    case KILN_FLOAT64:
      type.bits = 64;
      break;
  }
  return type;
}

/* Whether `item` is a tensor: the table's functions check nothing. */
static int IsTensor(PyObject* item) {
  PyTypeObject* type = Py_TYPE(item);
  if (type == tensor_type || type == parameter_type) return 1;
  if (!PyType_IsSubtype(type, tensor_type)) return 0;
  Py_INCREF(type); /* remembered, for ever: classes are few */
  parameter_type = type;
  return 1;
}

static int ReadInteger(PyObject* item, KilnValue* value) {
  value->kind = KILN_INTEGER;
  value->integer = PyLong_AsLongLong(item);
  return value->integer == -1 && PyErr_Occurred() ? -1 : 0;
}

static int ReadTensor(PyObject* item, KilnValue* value, DlpackDevice* device) {
  DlpackTensor tensor;
  if (exchange->look(item, &tensor) != 0) return -1;
  const int dtype = DTypeOf(tensor.type);
  if (dtype == 0) {
    PyErr_Format(PyExc_TypeError, "a tensor of DLPack type %d with %d bits",
                 tensor.type.code, tensor.type.bits);
    return -1;
  }
  value->kind = KILN_TENSOR;
  value->dtype = (KilnDType)dtype;
  value->rank = tensor.rank;
  value->data = (char*)tensor.data + tensor.byte_offset;
  value->sizes = tensor.sizes;
  value->strides = tensor.strides;
  *device = tensor.device;
  return 0;
}

/* Whether a tensor on `one` may stand behind those on `device`, which it decides
 * if it is the first. */
static int IsBeside(DlpackDevice one, DlpackDevice* device) {
  if (device->type == -1) *device = one;
  return one.type == device->type && one.ordinal == device->ordinal;
}

int kiln_tensors_read(PyObject* list, Py_ssize_t count, KilnValue* values,
                      DlpackDevice* device) {
  device->type = -1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GetItem(list, i);
    if (item == NULL) return -1;
    DlpackDevice one;
    if (IsTensor(item)) {
      if (ReadTensor(item, &values[i], &one) != 0) return -1;
      if (IsBeside(one, device)) continue;
      PyErr_Format(PyExc_TypeError,
                   "input %zd: on another device than those before it", i);
      return -1;
    }
    if (!PyLong_Check(item)) {
      PyErr_Format(PyExc_TypeError, "due a tensor or an int: %R",
                   Py_TYPE(item));
      return -1;
    }
    if (ReadInteger(item, &values[i]) != 0) return -1;
  }
  return 0;
}

int kiln_tensors_stream(int ordinal, void** stream) {
  return exchange->stream(kDlpackCuda, ordinal, stream);
}

void kiln_tensors_lend(int ordinal, KilnAllocator* allocator) {
  kiln_lend(exchange, ordinal, allocator);
}

/* A result on its way to the framework. */
typedef struct Wrapped {
  DlpackManaged managed; /* first: the framework has its address */
  KilnMemory* memory;
  PyObject* keep;
  int64_t dims[];
} Wrapped;

/* Called by the framework on any thread, with the GIL or without. */
static void Delete(DlpackManaged* managed) {
  Wrapped* wrapped = (Wrapped*)managed;
  kiln_library.kiln_memory_free(wrapped->memory);
  if (wrapped->keep != NULL) {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(wrapped->keep);
    PyGILState_Release(state);
  }
  free(wrapped);
}

PyObject* kiln_tensors_wrap(const KilnValue* value, KilnMemory* memory,
                            PyObject* keep, DlpackDevice device) {
  const size_t rank = (size_t)value->rank;
  Wrapped* wrapped = calloc(1, sizeof(Wrapped) + 2 * rank * sizeof(int64_t));
  if (wrapped == NULL) {
    kiln_library.kiln_memory_free(memory);
    return PyErr_NoMemory();
  }
  memcpy(wrapped->dims, value->sizes, rank * sizeof(int64_t));
  memcpy(wrapped->dims + rank, value->strides, rank * sizeof(int64_t));
  wrapped->memory = memory;
  if (memory == NULL && keep != NULL) {
    Py_INCREF(keep);
    wrapped->keep = keep;
  }
  wrapped->managed.version.major = kDlpackMajor;
  wrapped->managed.deleter = &Delete;
  DlpackTensor* tensor = &wrapped->managed.tensor;
  tensor->data = value->data;
  tensor->device = device;
  tensor->rank = value->rank;
  tensor->type = TypeOf(value->dtype);
  tensor->sizes = wrapped->dims;
  tensor->strides = wrapped->dims + rank;
  void* object = NULL;
  if (exchange->wrap(&wrapped->managed, &object) != 0) return NULL;
  return object;
}

#include "client/python/native/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "client/python/native/exchange.h"
#include "client/python/native/lending.h"
#include "client/python/native/library.h"
#include "client/python/native/reading.h"
#include "client/python/native/results.h"

static const DlpackExchange* exchange;
static PyTypeObject* tensor_type;    /* the class itself */
static PyTypeObject* parameter_type; /* its commonest subclass seen so far */
/* Describes a tensor: kiln_reading_read, or ReadByTable. */
static int (*read_tensor)(PyObject*, uintptr_t, KilnValue*, DlpackDevice*);

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
    case kDlpackUInt << 8 | 64: /* its bits, as kiln_reading_* has it */
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

static int ReadByTable(PyObject* item, uintptr_t use, KilnValue* value,
                       DlpackDevice* device) {
  (void)use; /* the table remembers nothing */
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

int kiln_tensors_learn(PyObject* tensor_class) {
  if (exchange != NULL) return 0;
  exchange = kiln_exchange_of(tensor_class);
  if (exchange == NULL) return -1;
  if (kiln_made_learn() != 0) PyErr_Clear(); /* then all cross by the table */
  read_tensor = exchange->look != NULL ? &ReadByTable : &kiln_reading_read;
  Py_INCREF(tensor_class);
  tensor_type = (PyTypeObject*)tensor_class;
  return 0;
}

/* Whether a tensor on `one` may stand behind those on `device`, which it decides
 * if it is the first. */
static inline int IsBeside(DlpackDevice one, DlpackDevice* device) {
  if (one.type == device->type && one.ordinal == device->ordinal) return 1;
  if (device->type != -1) return 0;
  *device = one;
  return 1;
}

/* Tensors between the one that is read and the one that is fetched: what one
 * reading waits for a cache in. */
enum { kAhead = 3 };

int kiln_tensors_read(const void* user, PyObject* list, Py_ssize_t count,
                      KilnValue* values, DlpackDevice* device) {
  /* Callables lie some hundred bytes apart: most have numbers of their own. */
  const uintptr_t first_use = (uintptr_t)user / 8;
  device->type = -1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    values[i].data = PyList_GetItem(list, i); /* for the second look */
    if (values[i].data == NULL) return -1;
    __builtin_prefetch(values[i].data);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (i + kAhead < count && IsTensor(values[i + kAhead].data)) {
      kiln_reading_prefetch(values[i + kAhead].data);
    }
    PyObject* item = values[i].data;
    DlpackDevice one;
    if (IsTensor(item)) {
      if (read_tensor(item, first_use + (uintptr_t)i, &values[i], &one) != 0) {
        return -1;
      }
      if (IsBeside(one, device)) continue;
      PyErr_Format(PyExc_TypeError,
                   "input %zd: on another device than those before it", i);
      return -1;
    }
    if (!PyLong_Check(item)) {
      PyErr_Format(PyExc_TypeError, "expected a tensor or an int: %R",
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

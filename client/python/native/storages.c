#include "client/python/native/storages.h"

#include "client/python/native/lending.h"
#include "client/python/native/library.h"
#include "client/python/native/results.h"
#include "client/python/native/tensors.h"

static _Thread_local int shared;

PyObject* kiln_py_share_storages(PyObject* self, PyObject* on) {
  (void)self;
  const int given = PyObject_IsTrue(on);
  if (given < 0) return NULL;
  shared = given;
  Py_RETURN_NONE;
}

int kiln_storages_are_shared(void) { return shared; }

static int64_t BytesOf(KilnDType dtype) {
  switch (dtype) {
    case KILN_BOOL:
    case KILN_UINT8:
    case KILN_INT8:
      return 1;
    case KILN_INT16:
    case KILN_FLOAT16:
    case KILN_BFLOAT16:
      return 2;
    case KILN_INT32:
    case KILN_FLOAT32:
      return 4;
    default:
      return 8;
  }
}

/* The bytes behind a tensor's first element, itself included. */
static int64_t Span(const KilnValue* value) {
  int64_t last = 0;
  for (int32_t d = 0; d < value->rank; ++d) {
    if (value->sizes[d] == 0) return 0;
    last += (value->sizes[d] - 1) * value->strides[d];
  }
  return (last + 1) * BytesOf(value->dtype);
}

/* Where the block of a result begins; NULL: it has none of its run's. */
static const char* BlockOf(const KilnResults* results, int32_t index) {
  KilnMemory* memory = kiln_library.kiln_results_share(results, index);
  const char* const block = kiln_library.kiln_memory_data(memory);
  kiln_library.kiln_memory_free(memory);
  return block;
}

/* The bytes of a block that results lie in. */
static int64_t SizeOf(const KilnResults* results, const char* block) {
  const int32_t count = kiln_library.kiln_results_count(results);
  int64_t size = 0;
  for (int32_t i = 0; i < count; ++i) {
    const KilnValue value = kiln_library.kiln_results_get(results, i);
    if (value.kind != KILN_TENSOR || BlockOf(results, i) != block) continue;
    const int64_t end = (const char*)value.data - block + Span(&value);
    if (end > size) size = end;
  }
  return size;
}

/* The storage of a block, which result `index` lies in. A new reference. */
static PyObject* StorageOf(const KilnResults* results, int32_t index,
                           const char* block, DlpackDevice device) {
  const int64_t size = SizeOf(results, block);
  const int64_t stride = 1;
  const KilnValue whole = {.kind = KILN_TENSOR,
                           .dtype = KILN_UINT8,
                           .rank = 1,
                           .data = (void*)block,
                           .sizes = &size,
                           .strides = &stride};
  /* PyTorch takes back only what is its own allocator's. */
  void* const lent = kiln_lent_tensor(block);
  PyObject* bytes =
      lent != NULL
          ? kiln_made_wrap(lent)
          : kiln_tensors_wrap(
                &whole, kiln_library.kiln_results_share(results, index), NULL,
                device);
  if (bytes == NULL) return NULL;
  PyObject* storage = PyObject_CallMethod(bytes, "untyped_storage", NULL);
  Py_DECREF(bytes);
  return storage;
}

static int SetStorage(PyObject* tensor, PyObject* storage, int64_t offset) {
  PyObject* sizes = PyObject_GetAttrString(tensor, "shape");
  PyObject* strides =
      sizes == NULL ? NULL : PyObject_CallMethod(tensor, "stride", NULL);
  PyObject* out = strides == NULL
                      ? NULL
                      : PyObject_CallMethod(tensor, "set_", "OLOO", storage,
                                            (long long)offset, sizes, strides);
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  Py_XDECREF(out);
  return out == NULL ? -1 : 0;
}

int kiln_storages_put(const KilnResults* results, int32_t index,
                      PyObject* tensor, PyObject* known, DlpackDevice device) {
  const KilnValue value = kiln_library.kiln_results_get(results, index);
  const char* const block = BlockOf(results, index);
  const char* const data = value.data;
  if (block == NULL || data < block || Span(&value) == 0) return 0;
  PyObject* key = PyLong_FromVoidPtr((void*)block);
  if (key == NULL) return -1;
  PyObject* storage = PyDict_GetItemWithError(known, key);
  int failed = storage == NULL && PyErr_Occurred() != NULL;
  if (storage == NULL && !failed) {
    storage = StorageOf(results, index, block, device);
    failed = storage == NULL || PyDict_SetItem(known, key, storage) != 0;
    Py_XDECREF(storage); /* the dict's, if it has it */
  }
  Py_DECREF(key);
  if (failed) return -1;
  return SetStorage(tensor, storage, (data - block) / BytesOf(value.dtype));
}

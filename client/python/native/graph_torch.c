#include "client/python/native/graph_torch.h"

#include "client/python/native/errors.h"

static struct {
  PyObject* use_count;     /* of a storage, by address */
  PyObject* free_weak_ref; /* likewise */
  PyObject* storage_at;    /* likewise: its Python object */
  PyObject* storage_over;  /* address, device, bytes */
  PyObject* tensor_on;     /* metadata, storage */
  PyObject* add_cached;
  PyObject* remove_cached;
  PyObject* enable_cached; /* a bool */
  PyObject* copy;
  PyObject* function_base; /* of autograd's functions in Python */
} torch;

static PyObject *untyped_storage, *cdata, *data_ptr, *weak_ref, *use_count;
static PyObject *key_data_ptr, *key_device, *key_nbytes;
static PyObject *grad, *is_leaf, *requires_grad, *retains_grad, *grad_fn;

/* The attribute at a path of names from the module torch. */
static int Find(PyObject** found, const char* const* names) {
  PyObject* at = PyImport_ImportModule("torch");
  for (; at != NULL && *names != NULL; ++names) {
    PyObject* next = PyObject_GetAttrString(at, *names);
    Py_DECREF(at);
    at = next;
  }
  *found = at;
  return at == NULL ? -1 : 0;
}

#define FIND(member, ...) \
  Find(&torch.member, (const char* const[]){__VA_ARGS__, NULL})

static int FindFunctions(void) {
  return FIND(use_count, "_C", "_storage_Use_Count") != 0 ||
                 FIND(free_weak_ref, "UntypedStorage", "_free_weak_ref") != 0 ||
                 FIND(storage_at, "UntypedStorage", "_new_with_weak_ptr") !=
                     0 ||
                 FIND(storage_over, "_C",
                      "_construct_storage_from_data_pointer") != 0 ||
                 FIND(tensor_on, "_C",
                      "_construct_CUDA_Tensor_From_Storage_And_Metadata") !=
                     0 ||
                 FIND(add_cached, "_C", "_add_cached_tensor") != 0 ||
                 FIND(remove_cached, "_C", "_remove_cached_tensor") != 0 ||
                 FIND(enable_cached, "_C", "_set_cached_tensors_enabled") !=
                     0 ||
                 FIND(copy, "_foreach_copy_") != 0 ||
                 FIND(function_base, "_C", "_FunctionBase") != 0
             ? -1
             : 0;
}

#undef FIND

int kiln_graph_torch_learn(void) {
  if (key_nbytes != NULL) return 0;
  if (FindFunctions() != 0) return -1;
  untyped_storage = PyUnicode_InternFromString("untyped_storage");
  cdata = PyUnicode_InternFromString("_cdata");
  data_ptr = PyUnicode_InternFromString("data_ptr");
  weak_ref = PyUnicode_InternFromString("_weak_ref");
  use_count = PyUnicode_InternFromString("_use_count");
  grad = PyUnicode_InternFromString("grad");
  is_leaf = PyUnicode_InternFromString("is_leaf");
  requires_grad = PyUnicode_InternFromString("requires_grad");
  retains_grad = PyUnicode_InternFromString("retains_grad");
  grad_fn = PyUnicode_InternFromString("grad_fn");
  key_data_ptr = PyUnicode_InternFromString("data_ptr");
  key_device = PyUnicode_InternFromString("device");
  key_nbytes = PyUnicode_InternFromString("nbytes");
  return PyErr_Occurred() ? -1 : 0;
}

/* Takes `number`, which may be NULL. */
static long NumberOf(PyObject* number) {
  const long value = number == NULL ? -1 : PyLong_AsLong(number);
  Py_XDECREF(number);
  return value;
}

/* Calls with a storage's address. New reference or NULL. */
static PyObject* CallAt(PyObject* function, void* storage) {
  PyObject* number = PyLong_FromVoidPtr(storage);
  if (number == NULL) return NULL;
  PyObject* out = PyObject_CallFunctionObjArgs(function, number, NULL);
  Py_DECREF(number);
  return out;
}

PyObject* kiln_graph_storage_object_of(PyObject* tensor) {
  return PyObject_CallMethodObjArgs(tensor, untyped_storage, NULL);
}

void* kiln_graph_storage_of(PyObject* tensor, void** address) {
  PyObject* storage = kiln_graph_storage_object_of(tensor);
  if (storage == NULL) return NULL;
  PyObject* at = PyObject_CallMethodObjArgs(storage, data_ptr, NULL);
  PyObject* number = at == NULL ? NULL : PyObject_GetAttr(storage, cdata);
  void* found = NULL;
  if (number != NULL) {
    *address = PyLong_AsVoidPtr(at);
    found = PyLong_AsVoidPtr(number);
  }
  Py_XDECREF(at);
  Py_XDECREF(number);
  Py_DECREF(storage);
  return found;
}

void kiln_graph_watch(void* storage) {
  const KilnAside aside = kiln_errors_put_aside();
  PyObject* object = CallAt(torch.storage_at, storage);
  PyObject* number = object == NULL
                         ? NULL
                         : PyObject_CallMethodObjArgs(object, weak_ref, NULL);
  Py_XDECREF(number);
  Py_XDECREF(object);
  kiln_errors_take_up(aside);
}

void kiln_graph_unwatch(void* storage) {
  const KilnAside aside = kiln_errors_put_aside();
  PyObject* out = CallAt(torch.free_weak_ref, storage);
  Py_XDECREF(out);
  kiln_errors_take_up(aside);
}

long kiln_graph_uses(void* storage) {
  const KilnAside aside = kiln_errors_put_aside();
  const long uses = NumberOf(CallAt(torch.use_count, storage));
  kiln_errors_take_up(aside);
  return uses;
}

long kiln_graph_tensor_uses(PyObject* tensor) {
  const KilnAside aside = kiln_errors_put_aside();
  const long uses =
      NumberOf(PyObject_CallMethodObjArgs(tensor, use_count, NULL));
  kiln_errors_take_up(aside);
  return uses;
}

static int IsObject(PyObject* tensor, PyObject* name, PyObject* object) {
  PyObject* found = PyObject_GetAttr(tensor, name);
  if (found == NULL) PyErr_Clear();
  Py_XDECREF(found);
  return found == object;
}

int kiln_graph_is_followed(PyObject* tensor) {
  if (IsObject(tensor, is_leaf, Py_True)) {
    return !IsObject(tensor, requires_grad, Py_False) ||
           !IsObject(tensor, grad, Py_None);
  }
  /* PyTorch warns of who reads `grad` here. */
  if (!IsObject(tensor, retains_grad, Py_False)) return 1;
  PyObject* function = PyObject_GetAttr(tensor, grad_fn);
  const int of_a_graph =
      function != NULL &&
      PyObject_IsInstance(function, torch.function_base) == 1;
  Py_XDECREF(function);
  PyErr_Clear();
  return !of_a_graph;
}

static PyObject* NewStorage(PyObject* metadata) {
  PyObject* address = PyDict_GetItem(metadata, key_data_ptr);
  PyObject* device = PyDict_GetItem(metadata, key_device);
  PyObject* bytes = PyDict_GetItem(metadata, key_nbytes);
  return PyObject_CallFunctionObjArgs(torch.storage_over, address, device,
                                      bytes, NULL);
}

PyObject* kiln_graph_tensor_on(PyObject* metadata, PyObject* storage) {
  PyObject* own = storage == NULL ? NewStorage(metadata) : NULL;
  if (storage == NULL && own == NULL) return NULL;
  PyObject* tensor = PyObject_CallFunctionObjArgs(
      torch.tensor_on, metadata, own != NULL ? own : storage, NULL);
  Py_XDECREF(own);
  return tensor;
}

PyObject* kiln_graph_storage_object(void* storage) {
  return CallAt(torch.storage_at, storage);
}

/* What torch._dynamo.reset() turns off is turned on again before. */
static PyObject* CallEnabled(PyObject* function, PyObject* tensor) {
  PyObject* on =
      PyObject_CallFunctionObjArgs(torch.enable_cached, Py_True, NULL);
  if (on == NULL) return NULL;
  Py_DECREF(on);
  return PyObject_CallFunctionObjArgs(function, tensor, NULL);
}

int kiln_graph_add_cached(PyObject* tensor) {
  PyObject* out = CallEnabled(torch.add_cached, tensor);
  Py_XDECREF(out);
  return out == NULL ? -1 : 0;
}

void kiln_graph_remove_cached(PyObject* tensor) {
  const KilnAside aside = kiln_errors_put_aside();
  PyObject* out = CallEnabled(torch.remove_cached, tensor);
  Py_XDECREF(out);
  kiln_errors_take_up(aside);
}

int kiln_graph_copy(PyObject* to, PyObject* from) {
  PyObject* out = PyObject_CallFunctionObjArgs(torch.copy, to, from, NULL);
  Py_XDECREF(out);
  return out == NULL ? -1 : 0;
}

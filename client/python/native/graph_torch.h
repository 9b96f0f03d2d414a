#ifndef KILN_CLIENT_PYTHON_NATIVE_GRAPH_TORCH_H_
#define KILN_CLIENT_PYTHON_NATIVE_GRAPH_TORCH_H_

/* Of PyTorch's insides, what a replay calls: looked up once, by name. All
 * functions need the GIL. */

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* -1 with an exception set when one is not there: then there are no graphs. */
int kiln_graph_torch_learn(void);

/* A storage object by identity: the address of PyTorch's StorageImpl. */

/* Of a tensor; NULL with an exception set. `address`: of its memory. */
void* kiln_graph_storage_of(PyObject* tensor, void** address);

/* Weak references. What goes wrong is printed. */
void kiln_graph_watch(void* storage);
void kiln_graph_unwatch(void* storage);
/* References to a watched storage; 0: it is dead. */
long kiln_graph_uses(void* storage);
/* References in C++ to a tensor, with the Python object's. */
long kiln_graph_tensor_uses(PyObject* tensor);
/* Whether a tensor has or keeps a gradient, or autograd follows it for another
 * than a function in Python, as compiled graphs are. */
int kiln_graph_is_followed(PyObject* tensor);

/* A tensor as `metadata` says (nbytes, data_ptr, size, stride, dtype, device,
 * storage_offset) on a storage: a Python object, or NULL for a new one over
 * data_ptr that owns nothing. New references; NULL with an exception set. */
PyObject* kiln_graph_tensor_on(PyObject* metadata, PyObject* storage);
/* The Python object of a live storage, and of a tensor's. */
PyObject* kiln_graph_storage_object(void* storage);
PyObject* kiln_graph_storage_object_of(PyObject* tensor);

/* Autograd and autocast do not count, and do not keep, a tensor that a recording
 * holds. -1 with an exception set. */
int kiln_graph_add_cached(PyObject* tensor);
void kiln_graph_remove_cached(PyObject* tensor);

/* Copies each of `from` to its like in `to`; lists. -1 with an exception set. */
int kiln_graph_copy(PyObject* to, PyObject* from);

#endif /* KILN_CLIENT_PYTHON_NATIVE_GRAPH_TORCH_H_ */

#ifndef KILN_CLIENT_PYTHON_NATIVE_GRAPH_FUNCTION_H_
#define KILN_CLIENT_PYTHON_NATIVE_GRAPH_FUNCTION_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln_graphs.h"
#include "client/python/native/graph_context.h"
#include "client/python/native/graph_host.h"

/* A GraphTree in Python (graph_tree.h). */
typedef struct KilnPyTree {
  PyObject_HEAD;
  KilnGraphTree* tree;
  KilnHostContext context; /* with the device */
  KilnGraphContext made_in;
  PyObject* calls;
  PyObject* marks;
  PyObject* stream_of; /* the device's */
} KilnPyTree;

/* GraphTree.add. What it gives keeps the tree. */
PyObject* kiln_py_graph_function(PyObject* tree, PyObject* args);

/* Makes the class of what a function holds. 0; or -1 with an exception. */
int kiln_py_graph_function_learn(void);

#endif /* KILN_CLIENT_PYTHON_NATIVE_GRAPH_FUNCTION_H_ */

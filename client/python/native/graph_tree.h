#ifndef KILN_CLIENT_PYTHON_NATIVE_GRAPH_TREE_H_
#define KILN_CLIENT_PYTHON_NATIVE_GRAPH_TREE_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* GraphTree(device), one device's graphs (kiln_graphs.h). `device`: as in
 * graph_host.h, and also
 *   index                of a GPU: its number
 *   calls, marks         objects whose attributes `generation` and
 *                        `mark_step_counter` count calls of compiled programs,
 *                        and steps that are marked (downwards)
 *   note(kind, function, text)
 *   pool_name            for messages
 *
 *   add(mode, body, tensors, static, mutated, constants, names, traces,
 *       output_traces, mutation_trace, options) -> function
 *       called with a list of inputs, which it empties. `tensors`: numbers of
 *       the inputs that are tensors on the device; `constants`: such tensors;
 *       `options`: a dict of numbers by the names of KilnGraphFunction's.
 *       `function.__self__.number` is what notes call it
 *   backward_ran(), shutdown()
 *   report() -> dict, nodes() -> list of dicts   as in kiln_graphs.h
 *
 * New references; NULL with an exception set. */
PyObject* kiln_py_graph_tree_class(void);

#endif /* KILN_CLIENT_PYTHON_NATIVE_GRAPH_TREE_H_ */

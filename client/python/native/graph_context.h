#ifndef KILN_CLIENT_PYTHON_NATIVE_GRAPH_CONTEXT_H_
#define KILN_CLIENT_PYTHON_NATIVE_GRAPH_CONTEXT_H_

/* The context that a tree's graphs are made in. A part of the program that resets
 * the device takes them with it: PyTorch, which replays them, would touch what is
 * freed. */
typedef struct KilnGraphContext {
  void* context; /* NULL: there is nothing to check */
  unsigned long long id;
} KilnGraphContext;

/* Of a GPU that PyTorch uses already. */
KilnGraphContext kiln_graph_context_of(int ordinal);

/* 0; or -1 with a RuntimeError set: the device was reset since. */
int kiln_graph_context_check(const KilnGraphContext* known);

#endif /* KILN_CLIENT_PYTHON_NATIVE_GRAPH_CONTEXT_H_ */

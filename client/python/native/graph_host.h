#ifndef KILN_CLIENT_PYTHON_NATIVE_GRAPH_HOST_H_
#define KILN_CLIENT_PYTHON_NATIVE_GRAPH_HOST_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln_graphs.h"
#include "client/python/native/graph_recording.h"

/* PyTorch as a KilnGraphHost. What is asked on every call is C; the rest are
 * methods of `device`, a Python object (graph_device.py); graph_tree.h has what
 * the tree asks of it beside:
 *
 *   warm_up(body, inputs) -> list
 *   record(body, inputs, uses) -> tuple       as in graph_recording.h
 *   checkpoint() -> object
 *   restore(checkpoint, storages)             addresses of StorageImpls
 *   free(address), blocks() -> list
 *   origin_of(addresses) -> str               who allocated these blocks, or ""
 *   invalidate(storage, text)
 *   thread() -> int                           the number of this thread; of one that
 *                                             works for others theirs, negated
 *   change_thread(stream)                     what comes runs after what was put on that
 *                                             stream, by another thread
 *   stream_of()                               the number of this thread's stream
 *   keep_gradients(storages, inputs)          those in storages with these addresses
 *                                             get memory of their own
 *   take_another_pool() -> bool               after a warm-up or record that raised
 *
 * An exception is left set where the host may fail. */
typedef struct KilnHostContext {
  PyObject* device;
  KilnRecordings recordings;
  /* Of the thread whose calls the graphs serve, 0: none yet, and the stream of its
   * last call; and the thread that calls now, in which `depth` counts calls that
   * others, or bodies, make meanwhile. */
  int64_t thread;
  int64_t stream;
  int64_t caller;
  int depth;
} KilnHostContext;

/* `context` outlives the tree. */
void kiln_graph_host(KilnHostContext* context, KilnGraphHost* host);

#endif /* KILN_CLIENT_PYTHON_NATIVE_GRAPH_HOST_H_ */

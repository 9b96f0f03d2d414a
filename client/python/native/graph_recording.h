#ifndef KILN_CLIENT_PYTHON_NATIVE_GRAPH_RECORDING_H_
#define KILN_CLIENT_PYTHON_NATIVE_GRAPH_RECORDING_H_

/* A captured graph with what its replays need: nothing of it is Python code but
 * what the capture itself made. All functions need the GIL. */

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln_graphs.h"

typedef struct KilnRecording KilnRecording;

/* One call: what the function is given, a list that it empties, and what it
 * gives. */
typedef struct KilnGraphCaller {
  PyObject* inputs;  /* borrowed */
  PyObject* outputs; /* NULL, or a list */
} KilnGraphCaller;

/* The recordings of a tree. */
typedef struct KilnRecordings {
  KilnRecording* first;
} KilnRecordings;

/* Visits what they hold, for the garbage collector. */
int kiln_recordings_visit(const KilnRecordings* all, visitproc visit,
                          void* arg);

/* Of what the device's `record` gave, a tuple:
 *   outputs    list
 *   launch     called without arguments
 *   slots      list of tensors: where copied inputs are read
 *   copied     list of their numbers
 *   narrow     list: of each None, or a tuple of sizes and strides: the part of an
 *              input that is copied
 *   metadata   list: of tensors a dict (graph_torch.h), of others None
 *   replay     what watchers of launches are told of a replay
 * One of `all` from now on, until it is freed. NULL with an exception set. */
KilnRecording* kiln_recording_of(PyObject* made, KilnRecordings* all);
void kiln_recording_free(KilnRecording* recording);

/* Tells of the capture's outputs. -1 with an exception set, as below. */
int kiln_graph_tell_outputs(PyObject* outputs, KilnGraphTell tell, void* to);
PyObject* kiln_recording_outputs(KilnRecording* recording); /* borrowed */

int kiln_recording_first_run(KilnRecording* recording, KilnGraphCaller* caller,
                             const KilnGraphRule* rules);
int kiln_recording_replay(KilnRecording* recording, KilnGraphCaller* caller,
                          const KilnGraphRule* rules, void** storages);

/* A cached tensor, whose uses beyond the recording's own are told. */
typedef struct KilnCached KilnCached;
KilnCached* kiln_recording_cached(KilnRecording* recording, int32_t output);
void kiln_recording_drop_cached(KilnRecording* recording, int32_t output);
int kiln_cached_is_live(const KilnCached* cached, void* storage);

#endif /* KILN_CLIENT_PYTHON_NATIVE_GRAPH_RECORDING_H_ */

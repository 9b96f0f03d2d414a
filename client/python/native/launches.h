#ifndef KILN_CLIENT_PYTHON_NATIVE_LAUNCHES_H_
#define KILN_CLIENT_PYTHON_NATIVE_LAUNCHES_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"

/* Python's profilers and hooks around the launches of a run. */

/* What one run's launches have come to. */
typedef struct KilnWatch {
  int ordinal;       /* of the run's GPU; -1: the CPU */
  PyObject* name_of; /* kiln_py_callable_name_of; NULL: labels are names */
  PyObject* entered; /* what `enter` gave; NULL outside of a launch */
  PyObject *type, *error, *trace; /* the first exception of a watcher */
} KilnWatch;

/* Whether anybody wants to know: asked at each run, so it costs next to nothing
 * where nobody does. */
extern int kiln_launches_wanted;
extern int (*kiln_launches_profiler_on)(void);
static inline int kiln_launches_are_watched(void) {
  return kiln_launches_wanted ||
         (kiln_launches_profiler_on != NULL && kiln_launches_profiler_on());
}

/* Has a run with these options tell `watch`, of which the ordinal is set. */
void kiln_launches_watch(KilnWatch* watch, KilnRunOptions* options);

/* Calls `launch` without arguments, which replays a device graph, and tells the
 * watchers of it: one pair for all of its kernels. `replay` is what enter is
 * given. Where the thread's runs are traced, replay.wait() waits for it, gives the
 * names of its kernels, and it is one event. 0, or -1 with an exception set. With
 * the GIL. */
int kiln_launches_replay(PyObject* launch, PyObject* replay);

/* After the run: raises what a watcher raised. Whether it did. */
int kiln_launches_raise(KilnWatch* watch);
/* After the run: drops it. */
void kiln_launches_forget(KilnWatch* watch);

/* Of native_module.c's table. */
PyObject* kiln_py_begin_trace(PyObject* self, PyObject* nothing);
PyObject* kiln_py_end_trace(PyObject* self, PyObject* nothing);
PyObject* kiln_py_capturing(PyObject* self, PyObject* on);
PyObject* kiln_py_launch_watchers(PyObject* self, PyObject* args);
PyObject* kiln_py_watch_launches(PyObject* self, PyObject* on);
PyObject* kiln_py_launch_facts(PyObject* self, PyObject* capsule);
PyObject* kiln_py_launch_source(PyObject* self, PyObject* capsule);

#endif /* KILN_CLIENT_PYTHON_NATIVE_LAUNCHES_H_ */

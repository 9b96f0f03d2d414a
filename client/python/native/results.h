#ifndef KILN_CLIENT_PYTHON_NATIVE_RESULTS_H_
#define KILN_CLIENT_PYTHON_NATIVE_RESULTS_H_

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/c_api/kiln.h"

/* Results of a run that are PyTorch's own tensors from the start. Its allocator
 * knows them then (record_stream, resize_), which it does not know of memory
 * that DLPack brings, and nothing is made twice. For CUDA: on the CPU the
 * runtime keeps pages that a step gave back, PyTorch does not. */

/* The tensors made for one run. */
typedef struct KilnMade {
  int ordinal;    /* of the CUDA device */
  int room;       /* of `tensors` */
  void** tensors; /* libtorch's handles, by result; NULL: not made */
  void* few[8];
} KilnMade;

/* Finds what it needs in the loaded libtorch. -1, with an ImportError that names
 * what is not there. After kiln_reading_learn. Needs the GIL. */
int kiln_made_learn(void);

/* Has a run's results made in `made`, on a CUDA device and its current stream.
 * Nothing when kiln_made_learn found no way. Then kiln_made_free. */
void kiln_made_offer(KilnMade* made, int ordinal, KilnRunOptions* options);

/* Result `index` as a new reference; NULL without an exception when it was not
 * made here. Needs the GIL. */
PyObject* kiln_made_get(const KilnMade* made, int32_t index);

/* Whether kiln_made_learn found what it needs. */
int kiln_made_is_known(void);

/* A Python object of a tensor of making.h: a new reference. Needs the GIL. */
PyObject* kiln_made_wrap(void* tensor);

/* Lets go of all, also of those that a failed run leaves. */
void kiln_made_free(KilnMade* made);

#endif /* KILN_CLIENT_PYTHON_NATIVE_RESULTS_H_ */

#include "client/python/native/forked.h"

/* Not 0 in a child that was forked, another number in each: the threads that an
 * end would wait for are not there, so nothing is ended. */
static int abandoned;

int kiln_py_abandoned(void) { return abandoned; }

PyObject* kiln_py_abandon(PyObject* self, PyObject* nothing) {
  (void)self;
  (void)nothing;
  ++abandoned;
  Py_RETURN_NONE;
}

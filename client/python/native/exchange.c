#include "client/python/native/exchange.h"

#include "client/python/native/exchange_of_functions.h"
#include "client/python/native/reading.h"

const DlpackExchange* kiln_exchange_of(PyObject* tensor_class) {
  static DlpackExchange table;
  PyObject* capsule =
      PyObject_GetAttrString(tensor_class, "__dlpack_c_exchange_api__");
  if (capsule == NULL) {
    PyErr_Clear();
    if (kiln_reading_learn(tensor_class) != 0) return NULL;
    return kiln_exchange_of_functions();
  }
  const DlpackExchange* theirs =
      PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule); /* the table lives as long as the process */
  if (theirs == NULL) return NULL;
  if (theirs->version.major != kDlpackMajor || theirs->look == NULL) {
    PyErr_Format(PyExc_ImportError, "DLPack exchange table of version %u.%u",
                 theirs->version.major, theirs->version.minor);
    return NULL;
  }
  if (kiln_reading_learn(tensor_class) != 0) PyErr_Clear();
  if (!kiln_reading_is_direct()) return theirs;
  table = *theirs;
  table.look = NULL;
  return &table;
}

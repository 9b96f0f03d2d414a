#include "client/python/native/exchange.h"

const DlpackExchange* kiln_exchange_of(PyObject* tensor_class) {
  PyObject* capsule =
      PyObject_GetAttrString(tensor_class, "__dlpack_c_exchange_api__");
  if (capsule == NULL) {
    PyErr_Clear();
    return kiln_exchange_of_functions();
  }
  const DlpackExchange* found =
      PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule); /* the table lives as long as the process */
  if (found == NULL) return NULL;
  if (found->version.major != kDlpackMajor || found->look == NULL) {
    PyErr_Format(PyExc_ImportError, "DLPack exchange table of version %u.%u",
                 found->version.major, found->version.minor);
    return NULL;
  }
  return found;
}

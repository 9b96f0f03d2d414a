#include "client/python/native/graph_context.h"

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>

/* Of the driver, which PyTorch has loaded. */
static struct {
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDevicePrimaryCtxRetain)(void** context, int device);
  int (*cuDevicePrimaryCtxRelease_v2)(int device);
  int (*cuCtxGetId)(void* context, unsigned long long* id);
} driver;

static int Find(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return -1;
#define FIND(name) *(void**)&driver.name = dlsym(library, #name)
  FIND(cuDeviceGet);
  FIND(cuDevicePrimaryCtxRetain);
  FIND(cuDevicePrimaryCtxRelease_v2);
  FIND(cuCtxGetId);
#undef FIND
  return driver.cuDeviceGet != NULL &&
                 driver.cuDevicePrimaryCtxRetain != NULL &&
                 driver.cuDevicePrimaryCtxRelease_v2 != NULL &&
                 driver.cuCtxGetId != NULL
             ? 0
             : -1;
}

KilnGraphContext kiln_graph_context_of(int ordinal) {
  KilnGraphContext found = {NULL, 0};
  int device = 0;
  void* context = NULL;
  if (Find() != 0 || driver.cuDeviceGet(&device, ordinal) != 0 ||
      driver.cuDevicePrimaryCtxRetain(&context, device) != 0) {
    return found;
  }
  if (driver.cuCtxGetId(context, &found.id) == 0) found.context = context;
  driver.cuDevicePrimaryCtxRelease_v2(device); /* PyTorch keeps it */
  return found;
}

int kiln_graph_context_check(const KilnGraphContext* known) {
  unsigned long long id = 0;
  if (known->context == NULL || (driver.cuCtxGetId(known->context, &id) == 0 &&
                                 id == known->id)) {
    return 0;
  }
  PyErr_SetString(PyExc_RuntimeError,
                  "device graphs: another part of the program has reset the "
                  "device; what was recorded on it is gone until the program "
                  "is started again");
  return -1;
}

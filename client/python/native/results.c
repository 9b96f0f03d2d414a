#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "client/python/native/results.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "client/python/native/making.h"

/* PyTorch's function for extensions that makes a Python object of a C++ tensor:
 * PyObject* THPVariable_Wrap(const at::TensorBase&). NULL: not there. */
static PyObject* (*wrap)(void* tensor);
static const char kWrap[] = "_Z16THPVariable_WrapRKN2at10TensorBaseE";

int kiln_made_learn(void) {
  if (kiln_making_learn() != 0) return -1;
  void* library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library != NULL) *(void**)&wrap = dlsym(library, kWrap);
  if (wrap != NULL) return 0;
  PyErr_Format(PyExc_ImportError, "libtorch_python: %s",
               library == NULL ? "is not loaded" : kWrap);
  return -1;
}

/* Room for a result of that number; 0: no memory. */
static int Reserve(KilnMade* made, int32_t index) {
  if (index < made->room) return 1;
  const int room = 2 * (index + 1);
  void** more = calloc((size_t)room, sizeof(*more));
  if (more == NULL) return 0;
  memcpy(more, made->tensors, (size_t)made->room * sizeof(*more));
  if (made->tensors != made->few) free(made->tensors);
  made->tensors = more;
  made->room = room;
  return 1;
}

/* KilnRunOptions.make_result. Without the GIL. Where PyTorch has no memory the
 * run asks for it once more, as for other results, and says so. */
static void* Make(void* context, int32_t index, const KilnValue* like) {
  KilnMade* made = context;
  if (!Reserve(made, index)) return NULL;
  void* data = NULL;
  made->tensors[index] = kiln_making_new(made->ordinal, like->dtype, like->rank,
                                         like->sizes, like->strides, &data);
  return data;
}

void kiln_made_offer(KilnMade* made, int ordinal, KilnRunOptions* options) {
  made->ordinal = ordinal;
  made->room = (int)(sizeof(made->few) / sizeof(made->few[0]));
  memset(made->few, 0, sizeof(made->few));
  made->tensors = made->few;
  if (!kiln_made_is_known()) return;
  options->make_result = &Make;
  options->result_context = made;
}

PyObject* kiln_made_get(const KilnMade* made, int32_t index) {
  if (index >= made->room || made->tensors[index] == NULL) return NULL;
  return kiln_made_wrap(made->tensors[index]);
}

int kiln_made_is_known(void) { return wrap != NULL; }

PyObject* kiln_made_wrap(void* tensor) { return wrap(tensor); }

void kiln_made_free(KilnMade* made) {
  for (int i = 0; i < made->room; ++i) {
    if (made->tensors[i] != NULL) kiln_making_free(made->tensors[i]);
  }
  if (made->tensors != made->few) free(made->tensors);
}
